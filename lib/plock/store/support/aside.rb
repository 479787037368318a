# frozen_string_literal: true

require_relative "../../background"
require_relative "turn"

module Plock
  class Store
    # Runs what might take too long on a thread of its own: the caller can give it up there, even
    # one that nothing may interrupt; and a fiber can wait for what its scheduler does not know.
    # While the process ends, it runs on the caller's thread, for there is no other.
    #
    # @api private
    module Aside
      class << self
        # A caller that is interrupted, or has waited long enough, goes on at once: nothing that the
        # block uses may be used elsewhere.
        #
        # @param lasting [Boolean] does the block run to its end all the same?
        # @return [Array(Object), nil] the block's value; nil: it took longer
        def run(seconds, lasting: false)
          thread = nil
          ended = Turn.new if Fiber.current_scheduler # on Ruby 3.1 a fiber's join has no limit
          uninterrupted do
            thread = Background.launch do
              yield
            ensure
              ended&.call
            end
          end
          return [yield] unless thread

          [thread.value] if ended ? ended.await(seconds) || !thread.alive? : thread.join(seconds)
        ensure
          uninterrupted { thread&.kill unless lasting }
        end

        # However long it takes. A caller that is interrupted goes on when the other thread has
        # ended.
        def wait(&block)
          thread = nil
          uninterrupted { thread = Background.launch(&block) }
          thread ? thread.value : yield
        ensure
          thread.kill.join if thread&.alive?
        end

        # Nobody waits for that.
        def start(&block)
          Background.launch(&block) || yield
        end

        private

        # Between a thread's beginning and its name's in the caller: nobody could give it up.
        def uninterrupted(&block) = Thread.handle_interrupt(Object => :never, &block)
      end
    end
  end
end
