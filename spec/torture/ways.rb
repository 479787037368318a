# frozen_string_literal: true

require_relative "basics"

module Torture
  # A way to ask for something.
  #   keys    one of these is asked for, or so many at once from it on
  #   mode    nil: one at a time; "s": with so many others, "r": with others, "w": alone among those
  Way = Struct.new(:name, :keys, :mode, :at_once, :weight, keyword_init: true) do
    def keys_from(key) = Array.new(at_once) { |i| keys[(keys.index(key) + i) % keys.size] }
  end

  locks, semaphore, read_write, once = [0, 1, 2], [3], [4], [5]
  KEYS = 6
  PERMITS = 3
  WITHIN = 0.7 # seconds in which something is done once

  WAYS = [
    Way.new(name: :acquire, keys: locks, at_once: 1, weight: 50),
    Way.new(name: :acquire_all, keys: locks, at_once: 2, weight: 8),
    Way.new(name: :monitor, keys: locks, at_once: 1, weight: 8),
    Way.new(name: :semaphore, keys: semaphore, mode: "s", at_once: 1, weight: 18),
    Way.new(name: :read, keys: read_write, mode: "r", at_once: 1, weight: 14),
    Way.new(name: :write, keys: read_write, mode: "w", at_once: 1, weight: 8),
    Way.new(name: :once, keys: once, at_once: 1, weight: 6)
  ].each(&:freeze).freeze
  ONCE = WAYS.last

  # The plainest way to ask for it.
  def self.way_to(key) = WAYS.find { |way| way.keys.include?(key) }
end
