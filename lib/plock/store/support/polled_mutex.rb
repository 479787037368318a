# frozen_string_literal: true

require_relative "../../background"
require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    # A mutex for work that waits for a server. Its callers get their turns in order. They poll, so
    # an interrupt ends a wait, and takes no wake-up away from the next caller. On Ruby 3.1, an
    # interrupted wait for a plain mutex can do that, and the next caller may then sleep for ever.
    #
    # @api private
    class PolledMutex < Thread::Mutex
      # Seconds between two looks of a caller that waits.
      LOOK_S = 0.001
      private_constant :LOOK_S

      def initialize
        super
        @tickets = [] # one for each caller that waits, in order
      end

      # @param deadline [Float, nil] a time of {Clock}
      # @raise [UnavailableError] another caller still held the mutex at the deadline
      # @raise [ThreadError] this fiber holds the mutex, or a signal handler would have to wait
      def hold(deadline = nil)
        free = !owned? # false if an outer call of this fiber holds the mutex; `wait` then raises
        wait(deadline) unless @tickets.empty? && try_lock
        yield
      ensure
        Interrupts.complete { unlock if free && owned? }
      end

      private

      def wait(deadline)
        lock if owned?
        Background.refuse_signal_handler
        @tickets.push(ticket = Object.new)
        until @tickets.first.equal?(ticket) && try_lock
          if deadline && Clock.now >= deadline
            raise UnavailableError.new(
              "another call for this lease has not ended in time", code: :in_use
            )
          end

          Kernel.sleep(LOOK_S) # not Mutex#sleep
        end
      ensure
        Interrupts.complete { @tickets.delete(ticket) }
      end
    end
  end
end
