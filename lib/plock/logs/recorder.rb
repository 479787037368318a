# frozen_string_literal: true

require_relative "outcome" # an autoload would fail in a signal handler

module Plock
  module Logs
    # Writes a line for each outcome. {Logs.start} returns a recorder.
    #
    # @api private
    class Recorder
      # @param settings [Hash{Symbol => Object}] for {Outcome}
      # @param to [#debug, nil]
      def initialize(level:, to:, **settings)
        @least = LEVELS.index(level)
        @settings = settings
        @to = to
      end

      def wants?(name) = Outcome::EVENTS.key?(name)

      def call(event)
        outcome = Outcome.of(event, **@settings) or return

        level = outcome.level
        level = :warn if outcome.remark && LEVELS.index(level) < LEVELS.index(:warn)
        write(level, outcome.fields) unless LEVELS.index(level) < @least
      end

      private

      def write(level, fields)
        logger = @to || Plock.logger
        if logger.respond_to?(level) && logger.respond_to?(:debug)
          logger.public_send(level, Outcome.line(fields))
        else
          time = Time.now.utc.strftime("%Y-%m-%dT%H:%M:%S.%6NZ")
          line = Outcome.line({ ts: time, level: level, pid: Process.pid, **fields })
          $stderr.write("#{line}\n") # one write, because other processes share the stream
        end
      end
    end
  end
end
