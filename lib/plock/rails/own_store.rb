# frozen_string_literal: true

require_relative "../cli"
require_relative "../cli/failure"

module Plock
  class Railtie
    # Makes a command use the store that the application has configured, instead of a store that
    # options or environment variables name.
    #
    # @api private
    module OwnStore
      # Extends the command's class.
      module Run
        # @param arguments [Array<String>]
        # @return [Integer] the exit status
        def run(arguments)
          new(arguments).run
        rescue CLI::Failure => e
          CLI.complain(e.message)
          e.status
        end
      end

      # @api private
      def self.included(command)
        super
        command.extend(Run)
      end

      private

      def store = Plock.store

      def settings_origins = { store: "the application" }

      # Leaves out the hint to read the command's help, because a Rake task does not have the
      # options that the help lists.
      def usage(message) = CLI::UsageError.new(message)
    end
  end
end
