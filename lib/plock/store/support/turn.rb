# frozen_string_literal: true

module Plock
  class Store
    # What a thread or fiber sleeps on until another calls it. A call that comes first is not lost.
    #
    # @api private
    class Turn
      def initialize
        @lock = Mutex.new
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
        Thread.handle_interrupt(Object => :never) do
          @lock.unlock if @lock.owned? # on Ruby 3.1 a fiber that was stopped does not have it
        end
      end
    end
  end
end
