# frozen_string_literal: true

require_relative "failure"
require_relative "../configuration"
require_relative "../settings"

module Plock
  module CLI
    # Reads an application's config/plock.yml as Rails does, but without loading the application.
    # The settings are those of the section `shared` and of the current environment's section.
    #
    # The file may contain code (ERB), and it decides which store is used. So if the user has not
    # named the file, it must belong to this user or to root, and must not be world-writable.
    class SettingsFile
      PLACE = "config/plock.yml"
      NONE = "none"
      VARIABLES = ["PLOCK_ENV", *Configuration::ENVIRONMENT_VARIABLES].freeze
      SHARED = "shared"
      WAY_OUT = "--config #{NONE} leaves the file alone"
      EVERYBODY_WRITES = 0o002
      private_constant :PLACE, :SHARED, :WAY_OUT, :EVERYBODY_WRITES

      # @param named [String, nil] the value of --config
      # @return [SettingsFile, nil] nil if there is no file, or if --config is "none"
      # @raise [UsageError]
      def self.find(named)
        return if named == NONE
        return new(absolute(named), trusted: true) if named

        path = above(Dir.pwd)
        path && new(path, trusted: false)
      rescue Errno::ENOENT # the working directory is gone
        nil
      end

      def self.absolute(path)
        File.expand_path(path)
      rescue Errno::ENOENT # the working directory is gone, so no file will be found
        path
      end
      private_class_method :absolute

      # @return [String, nil] the variable that names the environment; nil if none is set
      def self.environment_variable
        VARIABLES.find { |name| !ENV.fetch(name, "").empty? }
      end

      # @return [String, nil]
      def self.above(folder)
        loop do
          path = File.join(folder, PLACE)
          return path if there?(path)
          return if folder == File.dirname(folder)

          folder = File.dirname(folder)
        end
      end
      private_class_method :above

      def self.there?(path)
        File.lstat(path) && true
      rescue Errno::EACCES
        File.directory?(File.dirname(path)) # the folder is closed to this user; the file may exist
      rescue SystemCallError
        false
      end
      private_class_method :there?

      # @param trusted [Boolean] has the user named the file?
      def initialize(path, trusted:)
        @path = path
        @trusted = trusted
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

      private

      # Reads the file. The owner is checked only after the file has been opened. If it were checked
      # before, another file could take the checked file's place.
      def text
        # if the file is a FIFO without a writer, opening it must not block the command
        mode = File::RDONLY | (@trusted ? 0 : File::NONBLOCK)
        File.open(@path, mode, encoding: Encoding::UTF_8) do |file|
          check_owner(file.stat) unless @trusted
          file.read
        end
      rescue SystemCallError => e
        refuse(e.message)
      end

      def check_owner(stat)
        unless stat.owned? || stat.uid.zero?
          refuse("it belongs to another user; name it by --config to trust it")
        end
        if stat.mode.anybits?(EVERYBODY_WRITES)
          refuse("it is world-writable; name it by --config to trust it")
        end
      end

      # The settings of the current environment. Raises if the file has sections for environments,
      # but none for the current one.
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
          evaluate(text), aliases: true, permitted_classes: [Symbol], filename: @path
        ) || {}
      rescue Psych::Exception, ArgumentError => e
        refuse("it is no YAML: #{e.message.sub("(#{@path}): ", "")}")
      end

      def evaluate(text)
        return text unless text.include?("<%")

        require "erb"
        erb = ERB.new(text)
        erb.filename = @path
        erb.result
      rescue StandardError, ScriptError, SystemExit => e # the file is the application's code
        refuse("its ERB raised #{e.class} (#{e.message.lines.first.to_s.strip}); the command " \
               "does not load the application: let the file read environment variables")
      end

      def refuse(why)
        raise UsageError, "#{@path} cannot be used: #{why}; #{WAY_OUT}"
      end
    end
  end
end
