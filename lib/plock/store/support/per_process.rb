# frozen_string_literal: true

require_relative "../../afresh_in_child"

module Plock
  class Store
    # A value that only one thread of the process can use at a time. A forked child gets a new
    # value.
    #
    # @api private
    class PerProcess
      include AfreshInChild

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
