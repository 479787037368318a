# frozen_string_literal: true

require_relative "basics"

module Torture
  # What is wrong, in words; and the calls that it is about.
  Finding = Struct.new(:kind, :text, :calls)

  # What the driver did, and when. Each deed is dated from before it to after it.
  class Chronicle
    # A worker: when it was born, and when it had been reaped; killed: when the driver killed it;
    # hung: because it did not end by itself.
    Life = Struct.new(:name, :slot, :pid, :born, :died, :killed, :hung, :stops, :cuts,
                      keyword_init: true)

    # Between from and to the server forgot all, or what belongs to one key beside the lock itself.
    Oblivion = Struct.new(:from, :to, :key)

    attr_reader :lives,
                :downs,
                :darks,
                :oblivions,
                :slow,
                :queued,
                :waited,
                :held,
                :findings,
                :counts

    def initialize
      @lives = {}
      @downs = []     # [from, to] without a server
      @darks = Hash.new { |hash, slot| hash[slot] = [] } # slot => [[from, to]] of darkness
      @oblivions = []
      @slow = []      # [from, to] that a look at the server took too long, on a busy machine
      @queued = {}    # label => when it was first known to be in the queue
      @waited = {}    # label => when it was last seen there
      @held = {}      # label => when it was last seen to hold something
      @findings = []  # what the driver itself saw
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
