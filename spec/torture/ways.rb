# frozen_string_literal: true

require_relative "basics"

module Torture
  # Half of the lanes make calls without options, so also without a label for the queue.
  def self.plain?(lane) = lane.to_i.odd?

  # A way to ask for a lock.
  #   keys    the call asks for one of these, or for `at_once` of them from it on
  #   mode    nil: alone; "s": with a number of others, "r": with others, "w": alone among those
  #   permits how many at a time, with "s"
  Way = Struct.new(:name, :keys, :mode, :at_once, :weight, :permits, keyword_init: true) do
    # Does the holder get a lease that it can extend?
    def leases? = name != :once

    def keys_from(key) = Array.new(at_once) { |i| keys[(keys.index(key) + i) % keys.size] }
  end

  locks, semaphore, read_write, once, wide = [0, 1, 2], [3], [4], [5], [6]
  KEYS = 7
  PERMITS = 3
  ROOM = 1_000 # permits enough for all
  WITHIN = 0.7 # seconds in which something is done once

  WAYS = [
    Way.new(name: :acquire, keys: locks, at_once: 1, weight: 50),
    Way.new(name: :acquire_all, keys: locks, at_once: 2, weight: 8),
    Way.new(name: :monitor, keys: locks, at_once: 1, weight: 8),
    Way.new(name: :semaphore, keys: semaphore, mode: "s", at_once: 1, weight: 18,
            permits: PERMITS),
    Way.new(name: :read, keys: read_write, mode: "r", at_once: 1, weight: 14),
    Way.new(name: :write, keys: read_write, mode: "w", at_once: 1, weight: 8),
    Way.new(name: :once, keys: once, at_once: 1, weight: 6),
    Way.new(name: :wide, keys: wide, mode: "s", at_once: 1, weight: 2, permits: ROOM),
    Way.new(name: :adopt, keys: locks, at_once: 1, weight: 0) # a dumped lease
  ].each(&:freeze).freeze
  ONCE, WIDE, ADOPT = WAYS.last(3)

  # The simplest way to ask for it.
  def self.way_to(key) = WAYS.find { |way| way.keys.include?(key) }
end
