# frozen_string_literal: true

require_relative "basics"

module Torture
  # Half of the lanes make calls without options. Such a call has no label in the queue.
  def self.plain?(lane) = lane.to_i.odd?

  # A way to ask for a lock.
  #   keys    the keys for this way; a call asks for `at_once` of them
  #   mode    nil: one holder; "s": a semaphore; "r", "w": a reader or a writer
  #   permits how many may hold a semaphore at the same time
  Way = Struct.new(:name, :keys, :mode, :at_once, :weight, :permits, keyword_init: true) do
    # Does the holder get a lease that can be extended?
    def leases? = name != :once

    def keys_from(key) = Array.new(at_once) { |i| keys[(keys.index(key) + i) % keys.size] }
  end

  locks, semaphore, read_write, once, wide = [0, 1, 2], [3], [4], [5], [6]
  KEYS = 7
  PERMITS = 3
  ROOM = 1_000 # enough permits for all lanes
  WITHIN = 0.7 # the window of once, in seconds

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
    Way.new(name: :adopt, keys: locks, at_once: 1, weight: 0) # adopts a dumped lease
  ].each(&:freeze).freeze
  ONCE, WIDE, ADOPT = WAYS.last(3)

  # The first of the ways to ask for this key.
  def self.way_to(key) = WAYS.find { |way| way.keys.include?(key) }
end
