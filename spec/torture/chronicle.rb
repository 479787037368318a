# frozen_string_literal: true

require_relative "basics"

module Torture
  # A violation in words, with its calls.
  Finding = Struct.new(:kind, :text, :calls)

  # The deeds of the driver with their times. Each is dated from before it to after it.
  class Chronicle
    # A worker: its birth, and when it was reaped. killed: when the driver killed it; hung: because
    # it did not end by itself.
    Life = Struct.new(:name, :slot, :pid, :born, :died, :killed, :hung, :stops, :cuts,
                      keyword_init: true)

    # Between from and to the server forgot everything, or the keys of one lock beside the lock
    # itself.
    Oblivion = Struct.new(:from, :to, :key)

    # Sentinels made another server the primary. It had all that happened before `from`. By `named`
    # each running sentinel named it, and by `over` they have told all clients, as documented. told:
    # were all sentinels well, so that none of them was silent?
    Failover = Struct.new(:from, :promoted, :named, :over, :port, :told, keyword_init: true)

    # A look at a key found no holder, from the first to the last look of them on one server.
    Free = Struct.new(:server, :from, :to)

    attr_reader :lives,
                :downs,
                :darks,
                :oblivions,
                :slow,
                :queued,
                :waited,
                :held,
                :failovers,
                :free,
                :findings,
                :counts

    def initialize
      @lives = {}
      @downs = []     # [from, to] without a server
      @darks = Hash.new { |hash, slot| hash[slot] = [] } # slot => [[from, to]] of darkness
      @oblivions = []
      @slow = []      # [from, to] of a look at the server that took too long on a busy machine
      @queued = {}    # label => first known to be in the queue then
      @waited = {}    # label => when it was last seen there
      @held = {}      # label => when a look last found it as a holder
      @failovers = []
      @free = Hash.new { |hash, key| hash[key] = [] } # key => [Free]
      @findings = []  # those of the driver itself
      @counts = Hash.new(0)
    end

    def born(name, slot, pid)
      @lives[name] = Life.new(
        name: name, slot: slot, pid: pid, born: Clock.now, stops: [], cuts: []
      )
    end

    def find(kind, text) = @findings << Finding.new(kind, text, [])

    def count(what) = @counts[what] += 1

    # Runs the block and adds [from, to] to the list.
    def span(list)
      from = Clock.now
      yield.tap { list << [from, Clock.now] }
    end
  end
end
