# frozen_string_literal: true

module Plock
  class Store
    # What one process knows, for one thread at a time. A forked child begins with nothing of its parent's.
    #
    # @api private
    class PerProcess
      # @yieldreturn [Object] what a process begins with
      def initialize(&make)
        @make = make
        @lock = Mutex.new
      end

      def enter
        Thread.handle_interrupt(Object => :never) do
          @lock.synchronize do
            @known = @make.call unless @pid == Process.pid
            @pid = Process.pid
            yield @known
          end
        end
      end
    end
  end
end
