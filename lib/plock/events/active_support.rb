# frozen_string_literal: true

module Plock
  module Events
    # Passes events on to ActiveSupport::Notifications, as `acquire.plock` and so on, with
    # {Event#to_h} as the payload. It does not pass on the events of {Events::CALLS}, because a
    # call that runs in C does not emit them.
    #
    # @api private
    module ActiveSupportBridge
      # Makes a finished event return its times as Time objects, like the times that listeners
      # receive for an instrumented block.
      module Ended
        attr_accessor :source

        def time
          Time.at(super)
        end

        def end
          Time.at(super)
        end

        # @return [Float] milliseconds
        def duration = (self.end - time) * 1000.0
      end

      # The names of the events in ActiveSupport. They are made only once, because each acquire and
      # release needs a name to look for listeners.
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
