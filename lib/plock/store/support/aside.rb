# frozen_string_literal: true

require_relative "../../background"
require_relative "turn"

module Plock
  class Store
    # Runs, on a separate thread, a block that might take too long. So the caller can stop waiting
    # for the block when time is up, even if the caller has masked interrupts. A fiber can use this
    # to wait for blocking calls that its scheduler does not support. While the process is ending,
    # no thread can start, so the block runs on the caller's thread.
    #
    # @api private
    module Aside
      class << self
        # Runs the block on another thread, and waits for that thread. If the caller is interrupted,
        # or the time is over, the caller continues at once, while the block may still be running.
        # So no code outside of the block may use the objects that the block uses.
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

        # Runs the block on another thread, and waits for that thread without a time limit. If the
        # caller is interrupted, this method kills that thread, and waits until it has ended.
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

        def start(&block) = Background.launch(&block) || yield

        private

        # Masks interrupts while the caller launches a thread and assigns it to a variable. An
        # interrupt between these two steps would leave a thread that the caller cannot kill. The
        # mask does not keep a signal handler from raising between them. So the new thread also
        # assigns itself to the variable, and runs no block if its caller has already given up.
        def uninterrupted(&block) = Thread.handle_interrupt(UNINTERRUPTED, &block)
      end
    end
  end
end
