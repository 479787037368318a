# frozen_string_literal: true

require_relative "uninterrupted"

module Plock
  # For a class whose objects keep state of one process, guarded by the mutex `@lock`. The class's
  # `start_afresh` makes that state at an object's first use, and again at its first use in a forked
  # child.
  #
  # @api private
  module AfreshInChild
    private

    # Runs the block under the mutex, with every interrupt masked.
    #
    # @return [Object] the block's value
    def enter
      Thread.handle_interrupt(UNINTERRUPTED) do
        @lock.synchronize do
          unless @pid == Process.pid
            start_afresh
            @pid = Process.pid
          end
          yield
        end
      end
    end
  end
end
