# frozen_string_literal: true

require_relative "../cli/doctor_command"
require_relative "own_store"

module Plock
  class Railtie
    # `plock doctor` for the store that the application has configured.
    #
    # @api private
    class Doctor < CLI::DoctorCommand
      include OwnStore

      # @param accepted [Array<String>] the names of checks whose findings do not count
      # @return [Integer] the exit status
      def self.run(accepted)
        super(accepted.empty? ? [] : ["--accept", accepted.join(",")])
      end
    end
  end
end
