# frozen_string_literal: true

require_relative "../../background"

module Plock
  module Testing
    # The thread that calls {MemoryBackend#catch_up} when no other thread does. It runs while
    # something is due, and a moment longer.
    #
    # @api private
    class Timekeeper
      IDLE_S = 1.0

      # @param lock [Mutex] the backend's; all methods here must be called under it
      def initialize(backend, lock)
        @backend = backend
        @lock = lock
        @moved = ConditionVariable.new
        @alarm_at = @wakes_at = @thread = nil
      end

      # @param alarm_at [Float, nil] on the backend's clock
      def expect(alarm_at)
        @alarm_at = alarm_at
        return if alarm_at.nil?
        return @thread = launch unless @thread&.alive?

        @moved.signal if alarm_at < @wakes_at
      end

      def clock_moved = @moved.signal

      private

      def launch
        @wakes_at = -Float::INFINITY # the new thread reads the alarm when it starts
        Background.launch("plock memory", reports: true) { @lock.synchronize { run } }
      end

      def run
        until idle?
          @wakes_at = @alarm_at || @backend.now + IDLE_S
          left = @wakes_at - @backend.now
          left.positive? ? @moved.wait(@lock, left) : catch_up
        end
        @thread = nil
      end

      def idle?
        @alarm_at.nil? && @backend.now >= @wakes_at && @wakes_at.finite?
      end

      def catch_up
        Thread.handle_interrupt(Object => :never) { @alarm_at = @backend.catch_up(@backend.now) }
      end
    end
  end
end
