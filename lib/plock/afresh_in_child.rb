# frozen_string_literal: true

require_relative "uninterrupted"

module Plock
  # For an object whose state belongs to one process, and is guarded by the mutex `@lock`.
  # `start_afresh` makes the state at the object's first use, and again at its first use in a
  # forked child.
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
