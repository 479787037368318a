# frozen_string_literal: true

require_relative "../events"

module Plock
  module Events
    # Hands events on to ActiveSupport::Notifications, as `acquire.plock` and so on, with
    # {Event#to_h} as the payload.
    #
    # @api private
    module ActiveSupportBridge
      # Returns the times of an event that has ended as Time objects. Listeners know this form from
      # events of instrumented blocks.
      module Ended
        # @return [Time]
        def time
          Time.at(super)
        end

        # @return [Time]
        def end
          Time.at(super)
        end

        # @return [Float] milliseconds
        def duration
          (self.end - time) * 1000.0
        end
      end

      class << self
        # Attaches the bridge if ActiveSupport::Notifications is loaded. Every store calls this
        # when it is opened.
        def attach
          Events.add(self) if defined?(::ActiveSupport::Notifications) && Events.here?
        end

        # @return [Boolean]
        def wants?(name)
          ::ActiveSupport::Notifications.notifier.listening?("#{name}.plock")
        end

        # @param event [Event]
        def call(event)
          ended = Time.now
          times =
            ::ActiveSupport::Notifications::Event.new(
              "#{event.name}.plock", ended - event.duration, ended,
              ::ActiveSupport::Notifications.instrumenter.id, event.to_h
            )
          ::ActiveSupport::Notifications.publish_event(times.extend(Ended))
        end
      end
    end
  end
end
