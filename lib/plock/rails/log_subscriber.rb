# frozen_string_literal: true

require "active_support/log_subscriber"

module Plock
  class Railtie
    # Logs the events of leases in the application's log. A lease appears under its `label:`, or
    # under the beginning of its key's digest. Events do not have the key itself.
    #
    #     Plock acquired import:42 in 0.4 ms, fence 1763761234567890
    #     Plock released import:42 after 1204.1 ms, fence 1763761234567890
    #
    # Routine events have the level `debug`, a timeout has `info`, and a loss has `error`.
    #
    # @api private
    class LogSubscriber < ActiveSupport::LogSubscriber
      DIGITS = 12
      private_constant :DIGITS

      def acquire(event)
        debug { "Plock acquired #{name(event)} in #{span(event)}#{fence(event)}" }
      end
      subscribe_log_level :acquire, :debug

      def contended(event)
        debug { "Plock waited #{span(event)} for #{name(event)}, which another holder had" }
      end
      subscribe_log_level :contended, :debug

      def timeout(event)
        info { "Plock gave up #{name(event)} after #{span(event)}" }
      end
      subscribe_log_level :timeout, :info

      def release(event)
        debug do
          late = ", which was not ours any more" if event.payload[:released] == false
          "Plock released #{name(event)} after #{span(event)}#{fence(event)}#{late}"
        end
      end
      subscribe_log_level :release, :debug

      def lost(event)
        error do
          "Plock lost #{name(event)} after #{span(event)}#{fence(event)}: " \
            "another holder may have it now"
        end
      end
      subscribe_log_level :lost, :error

      private

      def name(event)
        label, mode = event.payload.values_at(:label, :mode)
        name = label ? label.inspect[1...-1] : "key #{event.payload[:key_digest][0, DIGITS]}"
        mode ? "#{name} to #{mode}" : name
      end

      def span(event)
        "#{event.duration.round(1)} ms"
      end

      def fence(event)
        number = event.payload[:fence]
        ", fence #{number}" if number
      end
    end
  end
end
