# frozen_string_literal: true

require_relative "../../errors"

module Plock
  module Guard
    # Raised where a guarded job could not have its key: by the job, so that its queue retries it,
    # or by the push. Another holder has the key; try again later.
    class Conflict < Error
      # @return [String, Symbol] the key that could not be had
      attr_reader :key

      # @return [Status, nil] who has it; nil where that could not be learnt
      attr_reader :status

      # @return [String] the name of the job's class
      attr_reader :job_class

      # @return [String] the job's id
      attr_reader :job_id

      # @return [Integer] how often this job met with a conflict, this one included
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

    # Raised where the `key:` of a guard raises, or answers what is no key. Its `cause` is what was
    # raised. Correct the guard.
    class InvalidKey < Error; end

    # The failures of a store after which a guard with `on_unavailable: :proceed` continues.
    FAILURES = [UnavailableError, AuthenticationError, PermissionError, ProtocolError].freeze
    private_constant :FAILURES
  end
end
