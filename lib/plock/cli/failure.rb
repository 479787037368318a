# frozen_string_literal: true

require_relative "exit_status"

module Plock
  module CLI
    # Raised to end the command with a message and an exit status.
    class Failure < StandardError
      attr_reader :status

      def initialize(message, status)
        super(message)
        @status = status
      end
    end

    # Raised if the command line or the configuration is invalid.
    class UsageError < Failure
      # @param help [String, nil] the command that shows help
      def initialize(message, help = nil)
        super(help ? "#{message}\nTry '#{help}'." : message, ExitStatus::USAGE)
      end

      # @param name [String] the name that the user wrote
      # @param names [Array<String>] the names that exist
      # @return [String] the end of a message, which suggests a similar name; empty if there is none
      def self.suggestion(name, names)
        return "" unless defined?(DidYouMean::SpellChecker) # Ruby can be started without it

        alike = DidYouMean::SpellChecker.new(dictionary: names).correct(name).first
        alike ? "; did you mean #{alike}?" : ""
      end
    end
  end
end
