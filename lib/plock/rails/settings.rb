# frozen_string_literal: true

require_relative "../settings"

module Plock
  class Railtie
    # An application's settings for the default store, from `config/plock.yml` for each environment
    # and from `config.plock`, which takes precedence. Both use the names of {Configuration}; nil
    # counts as absent.
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
      private_constant :FILE

      # @param app [Rails::Application]
      def initialize(app)
        @app = app
        @applied = {}
      end

      # @raise [ConfigurationError] an unknown name, or the default store is in use already
      def apply
        @applied = from_application
        configure({ logger: ::Rails.logger }.merge(from_file, @applied))
      end

      # Applies what was changed in `config.plock` since {#apply}.
      #
      # @raise [ConfigurationError] as {#apply}
      def apply_changes
        configure(from_application.reject { |name, value| @applied[name] == value })
      end

      private

      def configure(settings)
        return if settings.empty?

        Plock.configure do |configuration|
          settings.each { |name, value| configuration.public_send(:"#{name}=", value) }
        end
      end

      def from_application
        Plock::Settings.check(@app.config.plock.to_h, "config.plock")
      end

      def from_file
        path =
          @app.paths["config"]
            .existent
            .map { |folder| File.join(folder, FILE) }
            .find { |file| File.exist?(file) } or return {}
        settings = @app.config_for(Pathname(path)) || {}
        unless settings.is_a?(Hash)
          Plock::Settings.fail_with("#{path} must have names and values for #{::Rails.env}")
        end
        Plock::Settings.check(settings.to_h, path)
      end
    end
  end
end
