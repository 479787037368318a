# frozen_string_literal: true

module Plock
  class Store
    # Runs what might take too long on a thread of its own: there it can be given up, also by whoever cannot be interrupted himself;
    # and what waits in ways that a Fiber scheduler does not know can be waited for by a fiber.
    #
    # @api private
    module Aside
      # @param seconds [Float, nil] nil: as long as it takes
      # @yield on the other thread
      # @return [Array(Object), nil] the block's value; nil: it took longer
      def self.run(seconds, &block)
        thread = Thread.new { Thread.handle_interrupt(Object => :immediate, &block) }
        thread.report_on_exception = false
        [thread.value] if thread.join(seconds)
      ensure
        thread&.kill
      end
    end
  end
end
