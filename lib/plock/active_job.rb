# frozen_string_literal: true

require "active_job"
require_relative "errors"

module Plock
  # Guarded ActiveJob jobs, with any adapter. `require "plock/active_job"` enables the guards. See
  # {Guard}.
  #
  # If Sidekiq is the adapter, load Sidekiq before this file, so that dead and deleted jobs release
  # their keys. In Rails, the order does not matter.
  module ActiveJob
    OLDEST = "7.2"
    private_constant :OLDEST

    if ::ActiveJob.version < Gem::Version.new(OLDEST)
      raise UnsupportedError,
            "plock/active_job needs ActiveJob #{OLDEST} or later " \
            "(this is #{::ActiveJob.version})"
    end

    class << self
      # @api private
      def jobs?(job_class) = job_class < ::ActiveJob::Base ? true : false

      # @api private
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
