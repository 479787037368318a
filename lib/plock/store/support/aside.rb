# frozen_string_literal: true

require_relative "../../background"
require_relative "turn"

module Plock
  class Store
    # Runs, on a separate thread, a block that might take too long. The caller can then give up
    # waiting for the block, even while the caller itself must not be interrupted. A fiber can use
    # this to wait for blocking calls that its scheduler does not support. While the process is
    # ending, no thread can start, so the block runs on the caller's thread.
    #
    # @api private
    module Aside
      class << self
        # Runs the block, and waits for it. If the caller is interrupted, or the time is over, the
        # caller continues at once, while the block may still be running. So no other code may use
        # the objects that the block uses.
        #
        # @param lasting [Boolean] does the block run to its end even if the caller no longer waits?
        # @return [Array(Object), nil] the block's value, in an array; nil: the time was over
        def run(seconds, lasting: false)
          thread = over = nil
          # On Ruby 3.1, a fiber cannot join a thread with a time limit.
          ended = Turn.new if Fiber.current_scheduler
          uninterrupted do
            thread = Background.launch do
              thread = Thread.current
              yield if lasting || !over
            ensure
              ended&.call
            end
          end
          return [yield] unless thread

          [thread.value] if ended ? ended.await(seconds) || !thread.alive? : thread.join(seconds)
        ensure
          Interrupts.complete do
            over = true
            thread&.kill unless lasting
          end
        end

        # Runs the block without a time limit. If the caller is interrupted, it kills the other
        # thread, and continues after that thread has ended.
        def wait(&block)
          thread = over = nil
          uninterrupted do
            thread = Background.launch do
              thread = Thread.current
              block.call unless over
            end
          end
          thread ? thread.value : yield
        ensure
          Interrupts.complete do
            over = true
            thread.kill.join if thread&.alive?
          end
        end

        # Runs the block without waiting for it.
        def start(&block) = Background.launch(&block) || yield

        private

        # Masks interrupts while a thread is launched and assigned to a variable. An interrupt
        # between these steps would leave a thread that the caller cannot kill. A signal handler can
        # still raise there. So the thread also assigns itself to the variable, and does nothing
        # if its caller has already given up.
        def uninterrupted(&block) = Thread.handle_interrupt(UNINTERRUPTED, &block)
      end
    end
  end
end
