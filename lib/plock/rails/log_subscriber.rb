# frozen_string_literal: true

require "active_support/log_subscriber"
require_relative "../logs/outcome"

module Plock
  class Railtie
    # Logs the outcomes of calls and leases in the application's log, in the style and the colours
    # of Active Record's queries.
    #
    #     Plock acquired (0.4ms)  import:42  kind=lock fence=1763761234567890 ttl=10
    #     Plock released (1204.1ms)  import:42  kind=lock fence=1763761234567890
    #
    # A line shows the lease's `label:`, and with `log_keys: true` in {Configuration#log} also its
    # key. If it can show neither, it shows the beginning of the key's digest.
    #
    # The levels are those of {Logs}, except that a slow wait or a long hold does not raise the
    # level. So each event has a fixed level, and an acquire costs nothing if the log's level is
    # above `debug`.
    #
    # @api private
    class LogSubscriber < ActiveSupport::LogSubscriber
      COLOURS = { debug: GREEN, info: YELLOW, warn: YELLOW, error: RED }.freeze
      private_constant :COLOURS

      Logs::Outcome::EVENTS.slice(*Events::NAMES).each do |name, (_, level)|
        define_method(name) { |event| write(event.source) }
        # ActiveSupport has no level check for `warn`
        subscribe_log_level name, LEVEL_CHECKS.key?(level) ? level : :error
      end

      private

      def write(event)
        outcome = Logs::Outcome.of(event, **(Plock.log_settings || Logs::DEFAULTS)) or return

        __send__(outcome.level) { line(outcome) }
      end

      def line(outcome)
        colour = COLOURS.fetch(outcome.remark ? :warn : outcome.level)
        span = " (#{(outcome.duration * 1000.0).round(1)}ms)" if outcome.duration
        title = "Plock #{outcome.name.to_s.tr("_", " ")}#{span}"
        "  #{color(title, colour, bold: true)}  #{color(outcome.subject, nil, bold: true)}  " \
          "#{Logs::Outcome.line(outcome.details)}".rstrip
      end
    end
  end
end
