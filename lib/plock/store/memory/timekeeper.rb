# frozen_string_literal: true

require_relative "../../background"

module Plock
  module Testing
    # The thread that has a {MemoryBackend} catch up with the time when nobody calls. It is there as long as
    # there is something to wait for, and a moment longer.
    #
    # @api private
    class Timekeeper
      IDLE_S = 1.0

      # @param world [MemoryBackend]
      # @param lock [Mutex] the world's, under which everything here is called
      def initialize(world, lock)
        @world = world
        @lock = lock
        @moved = ConditionVariable.new
        @alarm_at = @wakes_at = @thread = nil
      end

      # @param alarm_at [Float, nil] on the world's clock
      # @return [void]
      def expect(alarm_at)
        @alarm_at = alarm_at
        return if alarm_at.nil?
        return @thread = launch unless @thread&.alive?

        @moved.signal if alarm_at < @wakes_at
      end

      # @return [void]
      def clock_moved
        @moved.signal
      end

      private

      def launch
        @wakes_at = -Float::INFINITY # it looks for itself, as soon as it runs
        Background.launch("plock memory", reports: true) { @lock.synchronize { run } }
      end

      def run
        until idle?
          @wakes_at = @alarm_at || @world.now + IDLE_S
          left = @wakes_at - @world.now
          left.positive? ? @moved.wait(@lock, left) : catch_up
        end
        @thread = nil
      end

      def idle?
        @alarm_at.nil? && @world.now >= @wakes_at && @wakes_at.finite?
      end

      def catch_up
        Thread.handle_interrupt(Object => :never) { @alarm_at = @world.catch_up(@world.now) }
      end
    end
  end
end
