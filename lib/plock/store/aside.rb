# frozen_string_literal: true

require_relative "../background"

module Plock
  class Store
    # Runs what might take too long on a thread of its own: there it can be given up, also by whoever cannot be interrupted himself;
    # and what waits in ways that a Fiber scheduler does not know can be waited for by a fiber. Where the process is ending, it runs
    # on the caller's thread, for there is no other.
    #
    # @api private
    module Aside
      class << self
        # Who is interrupted, or has waited long enough, goes on at once: nothing of what the block uses may be used elsewhere.
        #
        # @param seconds [Float]
        # @yield on the other thread
        # @return [Array(Object), nil] the block's value; nil: it took longer
        def run(seconds, &block)
          thread = nil
          uninterrupted { thread = Background.launch(&block) }
          return [yield] unless thread

          [thread.value] if thread.join(seconds)
        ensure
          thread&.kill
        end

        # As long as it takes. Who is interrupted goes on when the other thread has ended.
        #
        # @yield on the other thread
        # @return [Object] the block's value
        def wait(&block)
          thread = nil
          uninterrupted { thread = Background.launch(&block) }
          thread ? thread.value : yield
        ensure
          thread.kill.join if thread&.alive?
        end

        # Nobody waits for that.
        #
        # @yield on the other thread
        # @return [void]
        def start(&block)
          Background.launch(&block) || yield
        end

        private

        # Between a thread's beginning and its name's: nobody could give it up.
        def uninterrupted(&block) = Thread.handle_interrupt(Object => :never, &block)
      end
    end
  end
end
