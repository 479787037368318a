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
        # @return [Array(Object), nil] the block's value, in an array; nil: the block took longer
        def run(seconds, lasting: false)
          thread = over = nil
          ended = Turn.new if Fiber.current_scheduler # Ruby 3.1: fibers cannot limit a join
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
        # thread, and continues only when that thread has ended.
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

        # An interrupt between the start of a thread and its assignment would leave a thread that no
        # caller can kill. A signal handler may raise there nevertheless: so the thread assigns
        # itself, too, and does nothing if its caller has gone by then.
        def uninterrupted(&block) = Thread.handle_interrupt(UNINTERRUPTED, &block)
      end
    end
  end
end
