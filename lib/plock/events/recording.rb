# frozen_string_literal: true

require_relative "../afresh_in_child"
require_relative "../events"

module Plock
  module Events
    # For classes that record events after {#start}. Such a class handles one event at a time. It
    # must have the constant HANDLERS, which maps the name of each event to a method. Its
    # `initialize` must set `@recording` to false.
    #
    # @api private
    module Recording
      include AfreshInChild

      def start
        enter { @recording = true }
        Events.add(self)
        self
      end

      def wants?(name) = self.class::HANDLERS.key?(name)

      private

      # Calls the event's handler, if events are being recorded.
      def record(event, *more)
        enter { __send__(self.class::HANDLERS[event.name], event, *more) if @recording }
      end
    end
  end
end
