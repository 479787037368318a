# frozen_string_literal: true

require_relative "../settings"

module Plock
  class Railtie
    # An application's settings for the default store. They come from `config/plock.yml`, for each
    # environment, and from `config.plock`, which takes precedence. Both use the names of
    # {Configuration}; nil counts as absent.
    #
    # @example config/plock.yml
    #   shared:
    #     namespace: billing
    #   development:
    #     url: redis://localhost:6379/1
    #   production:
    #     url: <%= ENV["LOCKS_URL"] %>
    #     ttl: 30
    #     options:
    #       pool_size: 4
    #
    # @api private
    class Settings
      FILE = "plock.yml"
      CONFIG = "config.plock"

      # A deployed application does not boot if one of these settings is present without a value,
      # unless the setting's environment variable is set.
      NEEDED = {
        secret: Locking::StoreConfig::SECRET_VARIABLE, url: Configuration::URL_VARIABLE,
        namespace: Configuration::NAMESPACE_VARIABLE
      }.freeze

      # This variable is set while Rails runs as part of a build, in which secrets and servers are
      # missing.
      BUILD_VARIABLE = "SECRET_KEY_BASE_DUMMY"

      # Matches the name of the method at the beginning of an error message. {#verify} removes the
      # name, because the application did not call that method itself.
      CALL = /\APlock[:.\w]*: /.freeze
      private_constant :FILE, :CONFIG, :NEEDED, :BUILD_VARIABLE, :CALL

      def initialize(app)
        @app = app
        @applied = {}
        @origins = {}
        @empty = {}
      end

      # @raise [ConfigurationError] an unknown name, or the default store is in use already
      def apply
        configure({ logger: ::Rails.logger }, "the railtie")
        @applied = from_application
        configure(from_file.except(*@applied.keys), @path)
        configure(@applied, CONFIG)
      end

      # Applies the changes that were made to `config.plock` after {#apply}.
      #
      # @raise [ConfigurationError] see {#apply}
      def apply_changes
        configure(from_application.reject { |name, value| @applied[name] == value }, CONFIG)
      end

      # Raises if a setting is wrong, so that a deployed application fails at its boot and not at
      # its first lock. This method opens no file and connects to no server, so it does not notice
      # a missing server.
      def verify
        return if ENV[BUILD_VARIABLE]

        configuration = Plock.configuration
        refuse_empty(configuration)
        name, error = configuration.first_fault
        refuse(origin(name, configuration), name, error.message.sub(CALL, "")) if name
      end

      private

      def configure(settings, place)
        return if settings.empty?

        Plock.configure do |configuration|
          settings.each do |name, value|
            configuration.public_send(:"#{name}=", value)
            @origins[name] = [place, value]
          rescue ConfigurationError => e
            refuse(place, name, e.message)
          end
        end
      end

      # Refuses a setting that is present without a value. Its value usually comes from an
      # environment variable, which is missing in this process.
      def refuse_empty(configuration)
        @empty.each do |name, place|
          variable = NEEDED[name] or next
          next if ENV[variable] || configuration.set?(name)
          next if name == :url && configuration.set?(:store)

          refuse(place, name, "it has a name but no value: set it or #{variable}, or remove it")
        end
      end

      def origin(name, configuration)
        place, value = @origins[name]
        return place if place && configuration.set?(name, value)

        variable = NEEDED[name]
        variable && !configuration.set?(name) ? variable : "Plock.configure"
      end

      def refuse(place, name, message)
        message = "#{name}: #{message}" unless message.match?(/\A#{name}\b/)
        raise ConfigurationError, "#{place}: #{message}"
      end

      def from_application = checked(@app.config.plock.to_h, CONFIG)

      def from_file
        @path =
          @app.paths["config"]
            .existent
            .map { |folder| File.join(folder, FILE) }
            .find { |file| File.exist?(file) } or return {}
        settings = @app.config_for(Pathname(@path)) || {}
        unless settings.is_a?(Hash)
          Plock::Settings.fail_with("#{@path} must have names and values for #{::Rails.env}")
        end
        checked(settings.to_h, @path)
      end

      def checked(settings, place)
        settings.each { |name, value| @empty[name] = place if value.nil? || value == "" }
        Plock::Settings.check(settings, place)
      end
    end
  end
end
