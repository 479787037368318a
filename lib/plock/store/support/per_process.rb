# frozen_string_literal: true

require_relative "../../afresh_in_child"

module Plock
  class Store
    # What one process knows, for one thread at a time. A forked child begins with nothing of its
    # parent's.
    #
    # @api private
    class PerProcess
      include AfreshInChild

      # @yieldreturn [Object] what a process begins with
      def initialize(&make)
        @make = make
        @lock = Mutex.new
      end

      def enter
        super { yield @known }
      end

      private

      def start_afresh
        @known = @make.call
      end
    end
  end
end
