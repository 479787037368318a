# frozen_string_literal: true

require_relative "../cli/doctor_command"

module Plock
  class Railtie
    # `plock doctor` for the application's own store, as it is configured.
    #
    # @api private
    class Doctor < CLI::DoctorCommand
      # @param accepted [Array<String>] the names of checks that do not count
      # @return [Integer] the exit status
      def self.run(accepted)
        new(accepted.empty? ? [] : ["--accept", accepted.join(",")]).run
      rescue CLI::Failure => e
        CLI.complain(e.message)
        e.status
      end

      private

      def store
        @store ||= Plock.store.tap do |store|
          raise usage("there is no server to look at: locks live in #{store.url}") unless Store === store
        end
      end

      # Its help is about options that a task of rake does not have.
      def usage(message)
        CLI::UsageError.new(message)
      end
    end
  end
end
