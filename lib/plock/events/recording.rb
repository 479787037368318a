# frozen_string_literal: true

require_relative "../afresh_in_child"
require_relative "../events"

module Plock
  module Events
    # For an object that records events, one at a time, from {#start} on. Its class has the constant
    # HANDLERS, which names a method for each event, and it begins with `@recording` false.
    #
    # @api private
    module Recording
      include AfreshInChild

      # @api private
      # @return [self]
      def start
        enter { @recording = true }
        Events.add(self)
        self
      end

      # @api private
      # @return [Boolean]
      def wants?(name) = self.class::HANDLERS.key?(name)

      # @api private
      # @return [false]
      def bridge? = false

      private

      # Has the event handled, if events are recorded.
      def record(event, *more)
        enter { __send__(self.class::HANDLERS[event.name], event, *more) if @recording }
      end
    end
  end
end
