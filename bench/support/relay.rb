# frozen_string_literal: true

require_relative "contender"

module Bench
  # Two processes that pass one lock back and forth. While one is inside, the other one asks for
  # it.
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

    # Hands the lock over. The block determines how long the waiter waits.
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

    # The last holder leaves.
    def finish
      @holder.leave
      @holder.left
    end
  end
end
