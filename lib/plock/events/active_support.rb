# frozen_string_literal: true

require_relative "../events"

module Plock
  module Events
    # Hands events on to ActiveSupport::Notifications, as `acquire.plock` and so on, with
    # {Event#to_h} as the payload. It has no events of {Events::CALLS}: a call that goes through C
    # emits none.
    #
    # @api private
    module ActiveSupportBridge
      # Returns the times of an event that has ended as Time objects. Listeners know this form from
      # events of instrumented blocks.
      module Ended
        # @return [Event]
        attr_accessor :source

        # @return [Time]
        def time
          Time.at(super)
        end

        # @return [Time]
        def end
          Time.at(super)
        end

        # @return [Float] milliseconds
        def duration = (self.end - time) * 1000.0
      end

      # The names of the events here, made once: plock asks for listeners at each acquire and
      # release.
      NAMES = Events::NAMES.to_h { |name| [name, "#{name}.plock".freeze] }.freeze
      private_constant :NAMES

      class << self
        # Attaches the bridge if ActiveSupport::Notifications is loaded. Every store calls this
        # when it is opened.
        def attach
          Events.add(self) if defined?(::ActiveSupport::Notifications) && Events.here?
        end

        # @return [Boolean] is there a listener at the moment?
        def wants?(name)
          name = NAMES[name]
          !name.nil? && ::ActiveSupport::Notifications.notifier.listening?(name)
        end

        # @see Subscription#bridge?
        def bridge?
          true
        end

        # @param event [Event]
        def call(event)
          ended = Time.now
          times =
            ::ActiveSupport::Notifications::Event.new(
              NAMES[event.name], ended - event.duration, ended,
              ::ActiveSupport::Notifications.instrumenter.id, event.to_h
            )
          times.extend(Ended).source = event
          ::ActiveSupport::Notifications.publish_event(times)
        end
      end
    end
  end
end
