# frozen_string_literal: true

require_relative "failure"
require_relative "../configuration"
require_relative "../settings"

module Plock
  module CLI
    # An application's config/plock.yml, read as Rails reads it, but without the application: the
    # section of one environment, and the section `shared`.
    #
    # If the user has not named the file, it must belong to this user or to root, and must not be
    # world-writable: it may be run as ERB, and decides what is locked where.
    class SettingsFile
      PLACE = "config/plock.yml"
      NONE = "none"
      VARIABLES = ["PLOCK_ENV", *Configuration::ENVIRONMENT_VARIABLES].freeze
      SHARED = "shared"
      WAY_OUT = "--config #{NONE} leaves the file alone"
      EVERYBODY_WRITES = 0o002
      private_constant :PLACE, :SHARED, :WAY_OUT, :EVERYBODY_WRITES

      # @param named [String, nil] the value of --config
      # @return [SettingsFile, nil] nil: there is none, or it must be ignored
      # @raise [UsageError]
      def self.find(named)
        return if named == NONE
        return new(File.expand_path(named)) if named

        path = above(Dir.pwd) or return
        new(path).tap(&:check_owner)
      rescue Errno::ENOENT # the working directory is gone
        nil
      end

      # @return [String, nil] the variable that names the environment
      def self.environment_variable
        VARIABLES.find { |name| !ENV.fetch(name, "").empty? }
      end

      # @return [String, nil]
      def self.above(folder)
        loop do
          path = File.join(folder, PLACE)
          return path if File.exist?(path) || File.symlink?(path)
          return if folder == File.dirname(folder)

          folder = File.dirname(folder)
        end
      end
      private_class_method :above

      # @return [String]
      attr_reader :path

      def initialize(path)
        @path = path
      end

      # @return [Hash{Symbol => Object}] see {Settings}
      # @raise [UsageError]
      def settings
        @settings ||= Plock::Settings.check(merge(section(SHARED), own_section), @path)
      rescue ConfigurationError => e
        raise UsageError, e.message
      end

      # @return [String] for messages
      def to_s = @environment ? "#{@path} (#{@environment})" : @path

      # @raise [UsageError]
      def check_owner
        stat = File.stat(@path)
        unless stat.owned? || stat.uid.zero?
          refuse("it belongs to another user; name it by --config to trust it")
        end
        if stat.mode.anybits?(EVERYBODY_WRITES)
          refuse("it is world-writable; name it by --config to trust it")
        end
      rescue SystemCallError => e
        refuse(e.message)
      end

      private

      # The settings of the environment. If there are sections, but none for this environment, that
      # is a mistake; an empty one is enough.
      def own_section
        names = sections.keys - [SHARED]
        return {} if names.empty?

        variable = SettingsFile.environment_variable
        unless variable
          refuse("which environment? Set PLOCK_ENV or RAILS_ENV to one of #{names.join(", ")}")
        end
        @environment = ENV.fetch(variable)
        return section(@environment) if sections.key?(@environment)

        refuse("it has nothing for #{@environment}, as #{variable} says; " \
               "it has #{names.join(", ")}. An empty section is enough")
      end

      def section(name)
        settings = sections[name] || {}
        refuse("#{name} must have names and values") unless settings.is_a?(Hash)
        settings.to_h { |key, value| [key.to_s.to_sym, value] }
      end

      def merge(settings, others)
        settings.merge(others) do |_, one, other|
          one.is_a?(Hash) && other.is_a?(Hash) ? merge(one, other) : other
        end
      end

      def sections
        @sections ||= parse.tap do |parsed|
          refuse("it must have a section for each environment") unless parsed.is_a?(Hash)
          outside = parsed.find { |_, settings| !settings.nil? && !settings.is_a?(Hash) }
          refuse("#{outside.first} stands outside of a section; sections are shared and the " \
                 "environments") if outside
        end.transform_keys(&:to_s)
      end

      def parse
        require "psych"
        Psych.safe_load(
          evaluate(File.read(@path, encoding: Encoding::UTF_8)), aliases: true,
          permitted_classes: [Symbol], filename: @path
        ) || {}
      rescue SystemCallError => e
        refuse(e.message)
      rescue Psych::Exception, ArgumentError => e
        refuse("it is no YAML: #{e.message.sub("(#{@path}): ", "")}")
      end

      def evaluate(text)
        return text unless text.include?("<%")

        require "erb"
        erb = ERB.new(text)
        erb.filename = @path
        erb.result
      rescue StandardError, ScriptError => e # the file is the application's code
        refuse("its ERB raised #{e.class} (#{e.message.lines.first.to_s.strip}); the command " \
               "does not load the application: let the file read environment variables")
      end

      def refuse(why)
        raise UsageError, "#{@path} cannot be used: #{why}; #{WAY_OUT}"
      end
    end
  end
end
