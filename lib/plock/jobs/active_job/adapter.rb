# frozen_string_literal: true

module Plock
  module ActiveJob
    # Answers questions about a queue adapter.
    #
    # @api private
    module Adapter
      INLINE = "ActiveJob::QueueAdapters::InlineAdapter"
      TEST = "ActiveJob::QueueAdapters::TestAdapter"
      SIDEKIQ = "ActiveJob::QueueAdapters::SidekiqAdapter"

      # Adapters that keep their queues outside the database. A rollback does not remove their
      # jobs.
      OUTSIDE = %w[Async Backburner Inline Resque Sneakers SuckerPunch].map do |name|
        "ActiveJob::QueueAdapters::#{name}Adapter"
      end.freeze
      private_constant :INLINE, :TEST, :SIDEKIQ, :OUTSIDE

      class << self
        # @return [Boolean] is this a test, in which the adapter only records jobs or runs them at
        #   once?
        def pretends?(adapter)
          case adapter.class.name
          when TEST then true
          when SIDEKIQ then defined?(::Sidekiq::Testing) && ::Sidekiq::Testing.enabled?
          else false
          end
        end

        # @return [Boolean] can the adapter run a job later?
        def schedules?(adapter)
          case adapter.class.name
          when INLINE then false
          when TEST then !adapter.perform_enqueued_jobs && !adapter.perform_enqueued_at_jobs
          else !pretends?(adapter)
          end
        end

        # @return [Boolean] does the adapter itself retry a job that raises?
        def retries?(adapter) = adapter.class.name == SIDEKIQ

        # @return [Boolean] did a Sidekiq middleware stop the push?
        def stopped?(adapter, job) = adapter.class.name == SIDEKIQ && job.provider_job_id.nil?

        # @return [Boolean] is the job enqueued only after all open transactions have committed?
        def waits_for_commit?(job_class, adapter)
          return false unless job_class.include?(::ActiveJob::EnqueueAfterTransactionCommit)

          case job_class.enqueue_after_transaction_commit
          when :always, true then true
          when :default # since Rails 8.0, :default means no
            ::ActiveJob::VERSION::MAJOR < 8 && adapter.enqueue_after_transaction_commit?
          else false
          end
        end

        # Registers the block to be called if a transaction that is open now rolls back. Does
        # nothing if a rollback cannot remove the job from the queue.
        def on_rollback(adapter, &block)
          return unless transactional?(adapter)

          open_transactions.each { |transaction| transaction.after_rollback(&block) }
        end

        private

        # With Sidekiq, a rollback can prevent a push only if the application has set another
        # client class, such as Sidekiq's TransactionAwareClient.
        def transactional?(adapter)
          name = adapter.class.name
          return !OUTSIDE.include?(name) unless name == SIDEKIQ

          ::Sidekiq.default_job_options.key?("client_class")
        end

        # Rails has no public method that lists the open transactions of all databases, so this
        # method calls an undocumented one.
        def open_transactions
          return [] unless defined?(::ActiveRecord) && !::ActiveRecord.autoload?(:Base) &&
                           ::ActiveRecord.respond_to?(:all_open_transactions)

          ::ActiveRecord.all_open_transactions.select do |transaction|
            transaction.respond_to?(:after_rollback)
          end
        end
      end
    end
  end
end
