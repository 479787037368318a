# frozen_string_literal: true

require_relative "errors"

module Plock
  # The settings that config/plock.yml and `config.plock` may contain. Rails applications and
  # the command `plock` read them.
  #
  # @api private
  module Settings
    # The names of the settings, as in {Configuration}.
    NAMES = %i[url secret namespace ttl wait logger log options store].freeze

    # Stores that are named by a word. They are in the application's database.
    STORES = %w[database advisory].freeze

    # Options whose values are Symbols. YAML files have Strings instead.
    SYMBOLS = %i[verify sentinel_verify encoding scope release].freeze
    private_constant :SYMBOLS

    # Settings that decide how keys are named. They belong beside `options`, and are refused inside
    # it. If they were ignored there, processes would name keys differently, and would not exclude
    # one another.
    KEY_NAMING = %i[secret namespace].freeze

    class << self
      # Checks the settings. A setting whose value is nil counts as absent.
      #
      # @param place [String] where the settings are, for messages
      def check(settings, place)
        settings = settings.compact
        unknown = settings.keys - NAMES
        fail_with("#{place} has no #{unknown.first}; there are #{NAMES.join(", ")}") if unknown.any?
        check_store(settings[:store], place)
        settings[:options] = options(settings[:options], place) if settings.key?(:options)
        settings
      end

      def fail_with(message)
        raise ConfigurationError, message
      end

      private

      # Checks a store that is named by a word. Any other object is checked when it is used.
      def check_store(store, place)
        return unless (store.is_a?(String) || store.is_a?(Symbol)) && !STORES.include?(store.to_s)

        got = store.match?(%r{[@/]}) ? "another text" : store.to_s.inspect # may contain a password
        fail_with("#{place}: store must be one of #{STORES.join(", ")} (got #{got}); a URL " \
                  "belongs in url")
      end

      def options(options, place)
        fail_with("options in #{place} must have names and values") unless options.is_a?(Hash)
        options = options.to_h.transform_keys(&:to_sym)
        misplaced = KEY_NAMING.find { |name| options.key?(name) }
        fail_with("options in #{place} have a #{misplaced}, which would not count there: it " \
                  "stands beside options") if misplaced
        options.to_h do |name, value|
          [name, SYMBOLS.include?(name) && value.is_a?(String) ? value.to_sym : value]
        end
      end
    end
  end
end
