# frozen_string_literal: true

require_relative "../../brief_mutex"

module Plock
  class Store
    # Lets a thread or fiber sleep until another thread or fiber calls it. If the call comes first,
    # the next sleep ends at once.
    #
    # @api private
    class Turn
      def initialize
        @lock = BriefMutex.new
        @moved = ConditionVariable.new
        @called = false
      end

      # Signals after it has unlocked the mutex. A fiber that is woken earlier waits for the mutex,
      # and Ruby 3.1 may crash if a thread unlocks a mutex for which a fiber waits.
      def call
        Thread.handle_interrupt(UNINTERRUPTED) do
          @lock.synchronize { @called = true }
          @moved.signal
        end
      end

      # @return [Boolean] was there a call?
      def await(seconds)
        ends_at = now + seconds
        @lock.lock
        # a fiber may wake early, because of a call that it no longer waits for
        until @called || (left = ends_at - now) <= 0
          @moved.wait(@lock, left)
        end
        called, @called = @called, false
        called
      ensure
        # on Ruby 3.1, a fiber that was stopped does not hold the lock
        Interrupts.complete { @lock.unlock if @lock.owned? }
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
