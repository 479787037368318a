# frozen_string_literal: true

require_relative "configuration"
require_relative "events"

module Plock
  # A structured log: one line for each outcome of a call or a lease, in logfmt.
  #
  #     event=acquired label="nightly import" kind=lock digest=d9f1… waited=0.0004 fence=17 ttl=10
  #
  # The environment variable `PLOCK_LOG` turns the log on, and so do `log` in {Configuration} and
  # {Logs.start}. Without any of them, only the log of a Rails application uses this module.
  #
  # | event | level | fields |
  # | --- | --- | --- |
  # | `acquired` | `debug`; `warn` and `slow=true` after `slow_wait:` | `waited`, `fence`, `ttl` |
  # | `released` | `debug`; `warn` and `long=true` after `long_hold:` | `held`, `fence` |
  # | `adopted`, `handed_over` | `debug` | `fence` |
  # | `timeout` | `info`; `warn` and `slow=true` after `slow_wait:` | `waited`, `wait` |
  # | `failed` | `warn` | `waited`, `error`: a class, or `interrupted` |
  # | `renewal_late` | `warn` | `left`, `fence` |
  # | `release_failed` | `warn` | `held`, `error`, `fence` |
  # | `abandoned` | `warn`; `info` if the lease had ended | `fence` |
  # | `lost` | `error` | `held`, `fence` |
  #
  # All times are in seconds.
  module Logs
    # The environment variable with the level: `debug`, `info`, `warn` or `error`.
    VARIABLE = Configuration::LOG_VARIABLE

    # From the most verbose to the least verbose.
    LEVELS = %i[debug info warn error].freeze

    # A wait of this many seconds or more is slow.
    SLOW_WAIT_S = 1.0

    # A hold of this many seconds or more is long.
    LONG_HOLD_S = 60.0

    # The names of the settings.
    SETTINGS = %i[level log_keys slow_wait long_hold].freeze
    private_constant :SETTINGS

    @lock = Mutex.new

    class << self
      # Starts logging. A second call replaces the first one.
      #
      # @param level [Symbol, String] `:debug`, `:info`, `:warn` or `:error`
      # @param log_keys [Boolean] does a line show the key as the caller named it? If false, it
      #   shows only the beginning of the key's digest
      # @param slow_wait [Numeric, nil] a wait of this many seconds or more is logged as a
      #   warning; nil: never
      # @param long_hold [Numeric, nil] a hold of this many seconds or more is logged as a warning
      #   when it ends; nil: never
      # @param to [#debug, nil] a logger with a method for each level; nil: the logger of
      #   {Configuration} if it has these methods, otherwise the standard error stream
      # @return [Recorder]
      # @raise [ConfigurationError] an argument is not as described
      #
      # @example
      #   Plock::Logs.start(level: :info, slow_wait: 0.5, long_hold: 10)
      def start(
        level: :info, log_keys: false, slow_wait: SLOW_WAIT_S, long_hold: LONG_HOLD_S, to: nil
      )
        settings =
          check(level: level, log_keys: log_keys, slow_wait: slow_wait, long_hold: long_hold)
        require_relative "logs/recorder"
        replace(Recorder.new(**settings, to: to))
      end

      # @return [Boolean] was a log running?
      def stop = !replace(nil).nil?

      # @api private
      # @param settings [Hash, Symbol, String] as {Configuration#log=} takes it
      # @return [Hash{Symbol => Object}] the arguments of {start}; the level is nil if none is set
      # @raise [ConfigurationError]
      def check(settings)
        settings = { level: settings } unless settings.is_a?(Hash)
        settings = settings.to_h { |name, value| [name.to_sym, value] }
        unknown = settings.keys - SETTINGS
        refuse("has no #{unknown.first}; there are #{SETTINGS.join(", ")}") if unknown.any?
        {
          level: check_level(settings[:level]),
          log_keys: check_switch(settings.fetch(:log_keys, false)),
          slow_wait: check_span(:slow_wait, settings.fetch(:slow_wait, SLOW_WAIT_S)),
          long_hold: check_span(:long_hold, settings.fetch(:long_hold, LONG_HOLD_S))
        }
      end

      # @api private
      # Starts or stops the log, as the configuration and the environment say.
      #
      # @param settings [Hash, nil] as {check} returns them
      def configure(settings)
        settings ||= check({})
        level = settings[:level] || level_of_environment
        level ? start(**settings, level: level) : stop
      end

      private

      # @param recorder [Recorder, nil] nil: only remove the current recorder
      # @return [Recorder, nil] the new recorder; if there is no new one, the removed one or nil
      def replace(recorder)
        before = @lock.synchronize { [@recorder, @recorder = recorder].first }
        Events.remove(before) if before
        recorder ? Events.add(recorder) : before
      end

      # An invalid level only causes a warning, because a log must not stop the program.
      def level_of_environment
        value = ENV.fetch(VARIABLE, "")
        return if value.empty?

        level = LEVELS.find { |each| each.to_s == value }
        return level if level

        Log.warn(Plock.logger, "#{VARIABLE} is #{value.inspect}, so nothing is logged: set it to " \
                               "#{LEVELS.join(", ")}, or unset it")
      end

      def check_level(value)
        return if value.nil?

        LEVELS.find { |each| each.to_s == value.to_s } ||
          refuse("level must be one of #{LEVELS.join(", ")} (got #{value.inspect})")
      end

      def check_switch(value)
        return value if [true, false].include?(value)

        refuse("log_keys must be true or false (got #{value.inspect})")
      end

      def check_span(name, value)
        return if value.nil?
        return value.to_f if value.is_a?(Numeric) && value.real? && value >= 0

        refuse("#{name} must be a number of seconds, or nil (got #{value.inspect})")
      end

      def refuse(message)
        raise ConfigurationError, "log #{message}"
      end
    end

    # @api private
    # The settings if nothing is configured.
    DEFAULTS = check({}).freeze
  end
end
