# frozen_string_literal: true

require_relative "../cli"
require_relative "../cli/failure"

module Plock
  class Railtie
    # A command for the application's own store, as it is configured, in the place of one that
    # options and the environment name.
    #
    # @api private
    module OwnStore
      # In front of the command's class.
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

      def settings_origins = { store: { from: "the application" } }

      # Its help is about options that a task of rake does not have.
      def usage(message)
        CLI::UsageError.new(message)
      end
    end
  end
end
