# frozen_string_literal: true

require_relative "exit_status"

module Plock
  module CLI
    # Ends the command with a message and an exit status.
    class Failure < StandardError
      # @return [Integer]
      attr_reader :status

      # @param message [String]
      # @param status [Integer]
      def initialize(message, status)
        super(message)
        @status = status
      end
    end

    # The command line is wrong.
    class UsageError < Failure
      # @param message [String]
      # @param help [String, nil] the command that shows help
      def initialize(message, help = nil)
        super(help ? "#{message}\nTry '#{help}'." : message, ExitStatus::USAGE)
      end

      # @param name [String] the name that the user wrote
      # @param names [Array<String>] the names that exist
      # @return [String] an addition to a message; empty if no name is similar
      def self.suggestion(name, names)
        return "" unless defined?(DidYouMean::SpellChecker) # Ruby can be started without it

        alike = DidYouMean::SpellChecker.new(dictionary: names).correct(name).first
        alike ? "; did you mean #{alike}?" : ""
      end
    end
  end
end
