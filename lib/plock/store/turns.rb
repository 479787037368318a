# frozen_string_literal: true

require_relative "per_process"

module Plock
  class Store
    # Those of this process who wait for a key of one store, by their tokens, so that they can be called.
    #
    # @api private
    class Turns
      # One who waits. A call that comes before it sleeps is not lost.
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

        # Sleeps, as a thread or as a fiber, until it is called or the time is over.
        #
        # @return [Boolean] was it called?
        def await(seconds)
          @lock.lock
          @moved.wait(@lock, seconds) unless @called || seconds <= 0
          called, @called = @called, false
          called
        ensure
          Thread.handle_interrupt(Object => :never) do
            @lock.unlock if @lock.owned? # on Ruby 3.1 a fiber that is stopped while it waits does not have it
          end
        end
      end

      def initialize
        @turns = PerProcess.new { {} }
      end

      def open(token)
        @turns.enter { |turns| turns[token] = Turn.new }
      end

      def close(token)
        @turns.enter { |turns| turns.delete(token) }
      end

      # @return [Boolean] is it one of ours?
      def call(token)
        turn = @turns.enter { |turns| turns[token] }
        turn&.call
        !turn.nil?
      end

      # Something may have been missed.
      def call_all
        @turns.enter(&:values).each(&:call)
      end

      def any?
        @turns.enter(&:any?)
      end
    end
  end
end
