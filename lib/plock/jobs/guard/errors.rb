# frozen_string_literal: true

require_relative "../../errors"

module Plock
  module Guard
    # Raised when another holder has the key of a guarded job. Either the push or the run of the
    # job raises it. If the run raises it, the queue retries the job. If the push raises it, push
    # the job again later.
    class Conflict < Error
      # @return [String, Symbol] the key that another holder has
      attr_reader :key

      # @return [Status, nil] the holders; nil if they are not known
      attr_reader :status

      # @return [String] the name of the job's class
      attr_reader :job_class

      # @return [String] the job's id
      attr_reader :job_id

      # @return [Integer] number of conflicts of this job so far, including this one
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

    # Raised when the `key:` callable of a guard raises an error, or returns an invalid key. If
    # the callable raised, its error is the `cause`. Correct the guard.
    class InvalidKey < Error; end

    # The errors of a store that has failed.
    FAILURES = [UnavailableError, AuthenticationError, PermissionError, ProtocolError].freeze
    private_constant :FAILURES
  end
end
