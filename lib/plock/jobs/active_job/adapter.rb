# frozen_string_literal: true

module Plock
  module ActiveJob
    # The properties of a queue adapter.
    #
    # @api private
    module Adapter
      INLINE = "ActiveJob::QueueAdapters::InlineAdapter"
      TEST = "ActiveJob::QueueAdapters::TestAdapter"
      SIDEKIQ = "ActiveJob::QueueAdapters::SidekiqAdapter"
      private_constant :INLINE, :TEST, :SIDEKIQ

      class << self
        # @return [Boolean] does the adapter only record jobs?
        def pretends?(adapter) = adapter.class.name == TEST

        # @return [Boolean] can the adapter run a job later?
        def schedules?(adapter)
          return false if adapter.class.name == INLINE
          return true unless pretends?(adapter)

          !adapter.perform_enqueued_jobs && !adapter.perform_enqueued_at_jobs
        end

        # @return [Boolean] does the adapter itself run a job again that has raised?
        def retries?(adapter) = adapter.class.name == SIDEKIQ

        # @return [Boolean] is the job enqueued when open transactions have been committed?
        def waits_for_commit?(job_class, adapter)
          return false unless job_class.include?(::ActiveJob::EnqueueAfterTransactionCommit)

          case job_class.enqueue_after_transaction_commit
          when :always, true then true
          when :default # since 8.0, it means no
            ::ActiveJob::VERSION::MAJOR < 8 && adapter.enqueue_after_transaction_commit?
          else false
          end
        end
      end
    end
  end
end
