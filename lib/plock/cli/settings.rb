# frozen_string_literal: true

require_relative "settings_file"
require_relative "../locking/store_config"

module Plock
  module CLI
    # Finds the store to use, and how its keys are named. An option takes precedence over an
    # environment variable, and the variable over the application's config/plock.yml. Each setting
    # is looked up separately, so a namespace from the file can be used with a store from the
    # environment.
    class Settings
      HERE = "local:" # the default, whose locks exclude only the processes of this host
      DEFAULT = "by default"
      PRODUCTION = "production"
      private_constant :HERE, :DEFAULT, :PRODUCTION

      # @param url [String, nil] the value of --store
      # @param namespace [String, nil] the value of --namespace
      # @param config [String, nil] the value of --config
      # @raise [UsageError]
      def initialize(url, namespace, config)
        @file = SettingsFile.find(config)
        @told = @file ? @file.settings : {}
        @url, @url_from =
          first(:url, url, "--store", Configuration::URL_VARIABLE) || [HERE, DEFAULT]
        @url = @url.b unless @url.valid_encoding? # a path may contain any bytes
        @namespace, @namespace_from =
          first(:namespace, namespace, "--namespace", Configuration::NAMESPACE_VARIABLE)
        @secret, @secret_from = first(:secret, nil, nil, Locking::StoreConfig::SECRET_VARIABLE)
        refuse_store_of_application if from_file?(@url_from) || @url_from == DEFAULT
        refuse_default_in_production if @url_from == DEFAULT
        warn_of_another(:url, @url, @url_from, Configuration::URL_VARIABLE, "--store")
        warn_of_another(
          :namespace, @namespace, @namespace_from, Configuration::NAMESPACE_VARIABLE, "--namespace"
        )
      end

      attr_reader :url

      # @return [Hash{Symbol => Object}] the options for {Store.open}
      def options
        settings = { namespace: @namespace, secret: @secret, secret_origin: @secret_from }
        settings = @told.fetch(:options, {}).merge(settings) if options_meant?
        settings
      end

      # @return [Hash{Symbol => String, nil}] where each setting was found
      def origins = { store: @url_from, namespace: @namespace_from, secret: @secret_from }

      private

      # @return [Array(Object, String), nil] the value, and where it was found
      def first(name, option, switch, variable)
        return [option, switch] if option

        value = Configuration.from_environment(variable)
        return [value, variable] if value

        [@told[name].to_s, @file.to_s] if @told[name]
      end

      def from_file?(place) = !@file.nil? && place == @file.to_s

      # The file's options apply to the file's own url. If the file has no url, they apply to the
      # store from the environment or the default, but not to `--store`.
      def options_meant? = from_file?(@url_from) || (@told[:url].nil? && @url_from != "--store")

      def refuse_store_of_application
        return unless @told[:store]

        raise UsageError, "#{@file} says store: #{@told[:store]}, which only the application " \
                          "can open: in Rails bin/rails plock:doctor looks at it, and " \
                          "bin/rails runner can lock in it; --store names another one"
      end

      # Refuses the default store in production, as the application does. The application may get
      # its store from an environment variable that this process lacks, for example under cron.
      def refuse_default_in_production
        variable = SettingsFile.environment_variable
        return unless @file && variable && ENV.fetch(variable) == PRODUCTION

        raise UsageError, "#{@file} has no url, and #{variable} says #{PRODUCTION}: set " \
                          "#{Configuration::URL_VARIABLE} or pass --store, to redis://…, or to " \
                          "local: if all processes run on this one host"
      end

      # Warns if an environment variable overrides the file. Rails uses the value in the file, so
      # the command and the application would differ.
      def warn_of_another(name, value, from, variable, switch)
        return if from != variable || @told[name].nil? || @told[name].to_s == value

        CLI.complain("#{from} is used, and not the #{name} in #{@file}, by which the " \
                     "application goes; #{switch} says that this is meant")
      end
    end
  end
end
