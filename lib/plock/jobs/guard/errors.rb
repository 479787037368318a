# frozen_string_literal: true

require_relative "../../errors"

module Plock
  module Guard
    # Raised when another holder has the key of a guarded job. It is raised either by the push, or
    # by the job, so that the queue retries the job. Try again later.
    class Conflict < Error
      # @return [String, Symbol] the key that another holder has
      attr_reader :key

      # @return [Status, nil] the holders; nil if they are not known
      attr_reader :status

      # @return [String] the name of the job's class
      attr_reader :job_class

      # @return [String] the job's id
      attr_reader :job_id

      # @return [Integer] number of conflicts of this job so far, with this one
      attr_reader :conflicts

      # @api private
      def initialize(
        message = nil, key: nil, status: nil, job_class: nil, job_id: nil, conflicts: 1
      )
        super(message, code: :conflict)
        @key = key
        @status = status
        @job_class = job_class
        @job_id = job_id
        @conflicts = conflicts
      end
    end

    # Raised when the `key:` of a guard raises, or returns something that is no key. Its `cause` is
    # the exception that `key:` raised. Correct the guard.
    class InvalidKey < Error; end

    # The failures of a store.
    FAILURES = [UnavailableError, AuthenticationError, PermissionError, ProtocolError].freeze
    private_constant :FAILURES
  end
end
