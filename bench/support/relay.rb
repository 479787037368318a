# frozen_string_literal: true

require_relative "contender"

module Bench
  # Two processes that pass one lock back and forth. While one process holds the lock, the other
  # waits for it.
  class Relay
    # A hand-off, from the moment at which the holder begins to leave until the waiter is inside.
    Passing = Struct.new(:from, :to, :released_ns, :asked_ns, :entered_ns, :cpu_ns) do
      def took_ns = entered_ns - released_ns
      def waited? = asked_ns < released_ns
    end

    def initialize(holder, waiter, key)
      @holder = holder
      @waiter = waiter
      @key = key
      @holder.enter(key)
      @holder.entered
    end

    # Calls the block while the waiter waits, and then hands the lock over. Returns a Passing.
    def pass
      @waiter.enter(@key)
      yield
      @holder.leave
      asked, entered, cpu = @waiter.entered.values_at("asked_ns", "entered_ns", "cpu_ns")
      passing =
        Passing.new(
          @holder.contestant, @waiter.contestant, @holder.left.fetch("left_ns"), asked, entered, cpu
        )
      @holder, @waiter = @waiter, @holder
      passing
    end

    # Makes the last holder release the lock.
    def finish
      @holder.leave
      @holder.left
    end
  end
end
