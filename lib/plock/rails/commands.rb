# frozen_string_literal: true

require_relative "../cli/doctor_command"
require_relative "../cli/list_command"
require_relative "../cli/secret_command"

module Plock
  class Railtie
    # Makes a command use the store that the application has configured, instead of a store that
    # options or environment variables name.
    #
    # @api private
    module OwnStore
      # @return [Integer] the exit status
      def run
        super
      rescue CLI::Failure => e
        CLI.complain(e.message)
        e.status
      end

      private

      def store = Plock.store

      def settings_origins = { store: "the application" }

      # Leaves out the hint to read the command's help, because a Rake task does not have the
      # options that the help lists.
      def usage(message) = CLI::UsageError.new(message)
    end

    # `plock list`
    #
    # @api private
    class Locks < CLI::ListCommand
      include OwnStore

      private

      def nothing = "no key is held"
    end

    # `plock doctor`
    #
    # @api private
    class Doctor < CLI::DoctorCommand
      include OwnStore

      # @param accepted [Array<String>] the names of checks whose findings do not count
      def initialize(accepted)
        super(accepted.empty? ? [] : ["--accept", accepted.join(",")])
      end
    end

    # `plock secret`
    #
    # @api private
    class Secret < CLI::SecretCommand
      include OwnStore

      # @param words [Array<String>] `replace`, `yes` and `force`
      def initialize(words)
        super(words.map { |word| "--#{word}" })
      end
    end
  end
end
