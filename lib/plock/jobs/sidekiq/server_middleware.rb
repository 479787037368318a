# frozen_string_literal: true

require_relative "../guard/run"
require_relative "work"

module Plock
  module Sidekiq
    # Runs guarded jobs. A rescheduled job is pushed into the schedule under the same id before
    # its current run ends. When a job fails, Sidekiq retries it with the ticket that the job had
    # when it was fetched.
    class ServerMiddleware
      include ::Sidekiq::ServerMiddleware

      # Sidekiq calls this method for each run.
      #
      # @param job [Object] an instance of the job class
      # @param item [Hash{String => Object}] the job
      # @return [Object] the job's value; nil if it has not run
      # @raise [Guard::Conflict] another holder has the key, and `on_conflict:` leaves the job to
      #   Sidekiq's retries
      # @raise [Guard::InvalidKey] the guard's `key:` callable raised an error, or returned an
      #   invalid key
      # @raise [Error] the store failed
      def call(job, item, _queue, &perform)
        guard = job.class.plock_guard if job.is_a?(Guard)
        return yield unless guard || item.key?(Guard::JobState::NAME)

        # `job.class.name`, not the name in `item`: the class may have been renamed since the push
        Guard::Run.new(
          Work.new(guard, item, job.class.name, (method(:schedule) if queued?(job)))
        ).call(&perform)
      end

      private

      # Is the job in a queue, so that it can be rescheduled? `perform_inline` and Sidekiq::Testing
      # run a job without a context, inside their caller.
      def queued?(job) = !job._context.nil?

      def schedule(work, delay)
        !::Sidekiq::Client.new(config: config).push(work.copy_for(Time.now.to_f + delay)).nil?
      end
    end
  end
end
