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

      def call
        @lock.synchronize do
          @called = true
          @moved.signal
        end
      end

      # @return [Boolean] was there a call?
      def await(seconds)
        @lock.lock
        @moved.wait(@lock, seconds) unless @called || seconds <= 0
        called, @called = @called, false
        called
      ensure
        # on Ruby 3.1, a fiber that was stopped does not hold the lock
        Interrupts.complete { @lock.unlock if @lock.owned? }
      end
    end
  end
end
