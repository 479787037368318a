# frozen_string_literal: true

require "active_job"
require_relative "errors"

module Plock
  # Guarded ActiveJobs, for any adapter: `require "plock/active_job"` is all the set-up. See
  # {Guard}.
  #
  # With Sidekiq as the adapter load Sidekiq before: then jobs that it buries or deletes give back
  # what they hold. In Rails their order does not matter.
  module ActiveJob
    OLDEST = "7.2"
    private_constant :OLDEST

    if ::ActiveJob.version < Gem::Version.new(OLDEST)
      raise UnsupportedError.new(
        "plock/active_job needs ActiveJob #{OLDEST} or later " \
          "(this is #{::ActiveJob.version})",
        code: :unsupported
      )
    end

    class << self
      # @api private
      # @return [Boolean]
      def jobs?(job_class)
        job_class < ::ActiveJob::Base ? true : false
      end

      # @api private
      # @return [void]
      def guard(job_class)
        job_class.include(Guarded) unless job_class.include?(Guarded)
      end
    end
  end
end

require_relative "sidekiq" if defined?(Sidekiq::Job)
require_relative "jobs/guard"
require_relative "jobs/active_job/guarded"

Plock::Guard.fronts << Plock::ActiveJob
