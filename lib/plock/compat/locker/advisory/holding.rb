# frozen_string_literal: true

class Locker
  class Advisory
    # The lock of one block. It has a connection of its own, and ends if the connection is lost.
    #
    # @api private
    class Holding < Plock::Store::Advisory::LeaseState
      # Seconds: longer than any process lives, because an advisory lock does not expire.
      TTL_S = 1e9
      private_constant :TTL_S

      # @return [Float, nil] seconds between two attempts; nil if the caller waits in the
      #   database's queue
      attr_reader :pause

      def initialize(store, key, pause)
        super(store, key, nil)
        @pause = pause
        @alarm = Plock::LossAlarm.new(LockConnectionLost) { |error| raise error }
      end

      # @param patience [Float] seconds to wait
      # @return [Boolean] whether the block has run
      def around(patience, &block)
        request = Plock::Store::AcquireRequest.new(@store, self, TTL_S)
        @alarm.around do
          next false unless request.run(patience)

          @alarm.hearing(&block)
          done = true
        ensure
          Plock::Interrupts.complete do
            request.leave
            raise @alarm.error if done && @alarm.error
          end
        end
      end

      def lose
        @alarm.raise_inside(LockConnectionLost.new("the connection that has the lock was lost"))
        super
      end
    end
  end
end
