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

    # A call that cannot be right.
    class UsageError < Failure
      # @param message [String]
      # @param help [String, nil] what to call for more
      def initialize(message, help = nil)
        super(help ? "#{message}\nTry '#{help}'." : message, ExitStatus::USAGE)
      end

      # @param name [String] as it was written
      # @param names [Array<String>] those that there are
      # @return [String] to be added to a message; empty where nothing is alike
      def self.suggestion(name, names)
        return "" unless defined?(DidYouMean::SpellChecker) # Ruby can be told to leave it out

        alike = DidYouMean::SpellChecker.new(dictionary: names).correct(name).first
        alike ? "; did you mean #{alike}?" : ""
      end
    end
  end
end
