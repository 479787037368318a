# frozen_string_literal: true

module Plock
  # For an object whose state is one process's, under its mutex `@lock`. A forked child begins with
  # what `start_afresh` makes, and so does an object that has no `@pid` yet.
  #
  # @api private
  module AfreshInChild
    private

    # Under the mutex, with every interrupt put off.
    #
    # @return [Object] the block's value
    def enter
      Thread.handle_interrupt(Object => :never) do
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
