# frozen_string_literal: true

require_relative "errors"

module Plock
  # What config/plock.yml and `config.plock` may say, in Rails and for the command.
  #
  # @api private
  module Settings
    # As {Configuration} has them.
    NAMES = %i[url secret namespace ttl wait logger options store].freeze

    # Stores that are named by a word. They live in the database of the application.
    STORES = %w[database advisory].freeze

    # Options whose values YAML has no way to write as they are.
    SYMBOLS = %i[verify encoding scope].freeze
    private_constant :SYMBOLS

    # What names keys. It belongs beside the options: processes that name keys differently run at
    # once.
    KEY_NAMING = %i[secret namespace].freeze

    class << self
      # nil counts as absent.
      #
      # @param settings [Hash{Symbol => Object}]
      # @param place [String] where they stand
      # @return [Hash{Symbol => Object}]
      # @raise [ConfigurationError]
      def check(settings, place)
        settings = settings.compact
        unknown = settings.keys - NAMES
        fail_with("#{place} has no #{unknown.first}; there are #{NAMES.join(", ")}") if unknown.any?
        settings[:options] = options(settings[:options], place) if settings.key?(:options)
        settings
      end

      # @raise [ConfigurationError]
      def fail_with(message)
        raise ConfigurationError.new(message, code: :bad_config)
      end

      private

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
