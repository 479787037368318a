# frozen_string_literal: true

require_relative "../../brief_mutex"

module Plock
  class Store
    # A thread or fiber sleeps on it until another one calls it. A call that comes first is kept.
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

      # Sleeps until it is called or the time is over.
      #
      # @return [Boolean] was it called?
      def await(seconds)
        @lock.lock
        @moved.wait(@lock, seconds) unless @called || seconds <= 0
        called, @called = @called, false
        called
      ensure
        # on Ruby 3.1 a fiber that was stopped does not have it
        Interrupts.complete { @lock.unlock if @lock.owned? }
      end
    end
  end
end
