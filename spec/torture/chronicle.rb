# frozen_string_literal: true

require_relative "basics"

module Torture
  # A violation: its kind, a sentence about it, and the calls that it concerns.
  Finding = Struct.new(:kind, :text, :calls)

  # The actions of the driver, with their times. A time with two ends, [from, to], begins before the
  # action and ends after it.
  class Chronicle
    # A worker process, from its start until the driver has reaped it. killed: when the driver
    # killed the process. hung: was it killed because it did not end by itself?
    Life = Struct.new(:name, :slot, :pid, :born, :died, :killed, :hung, :stops, :cuts,
                      keyword_init: true)

    # Between `from` and `to`, the server forgot all keys. If `key` is set, it forgot only the queue
    # or the companion of that lock.
    Oblivion = Struct.new(:from, :to, :key)

    # A failover: another server became the primary. The new primary has all data from before
    # `from`. At `named`, every running sentinel names the new primary. At `over`, every client must
    # know it, as the documentation promises. told: did all sentinels run and answer?
    Failover = Struct.new(:from, :promoted, :named, :over, :port, :told, keyword_init: true)

    # A period in which each look at a key on this server found no holder.
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
      @downs = []     # [from, to] of each time without a server
      @darks = Hash.new { |hash, slot| hash[slot] = [] } # slot => [[from, to], ...] in the dark
      @oblivions = []
      @slow = []      # [from, to] of each look that took too long on a busy machine
      @queued = {}    # label => when the call was first seen in the queue
      @waited = {}    # label => when the call was last seen in the queue
      @held = {}      # label => when the call was last seen as a holder
      @failovers = []
      @free = Hash.new { |hash, key| hash[key] = [] } # key => periods without a holder, as [Free]
      @findings = []  # violations that the driver itself found
      @counts = Hash.new(0)
    end

    def born(name, slot, pid)
      @lives[name] = Life.new(
        name: name, slot: slot, pid: pid, born: Clock.now, stops: [], cuts: []
      )
    end

    def find(kind, text) = @findings << Finding.new(kind, text, [])

    def count(what) = @counts[what] += 1

    # Runs the block, and adds the time that it took to the list, as [from, to].
    def span(list)
      from = Clock.now
      yield.tap { list << [from, Clock.now] }
    end
  end
end
