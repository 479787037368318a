# frozen_string_literal: true

require_relative "../guard/run"
require_relative "work"

module Plock
  module Sidekiq
    # Runs guarded jobs as {Guard::Run} says. A job that is put off is pushed into the schedule,
    # under its id, before this one is done with it; a job that fails is Sidekiq's to retry, with
    # the ticket that it was fetched with.
    class ServerMiddleware
      include ::Sidekiq::ServerMiddleware

      # @return [Object] the job's value; nil if it has not run
      # @raise [Guard::Conflict]
      # @raise [Guard::InvalidKey]
      # @raise [Error] the store failed
      def call(job, item, _queue, &perform)
        guard = job.class.plock_guard if job.is_a?(Guard)
        return yield unless guard || item.key?(Guard::JobState::NAME)

        # The name of the class is what it has now, not what it had when the job was pushed.
        Guard::Run.new(
          Work.new(guard, item, job.class.name, rescheduler: (method(:schedule) if queued?(job)))
        ).call(&perform)
      end

      private

      # `perform_inline` and Sidekiq::Testing run a job in the middle of their caller.
      def queued?(job)
        !job._context.nil?
      end

      def schedule(work, delay)
        !::Sidekiq::Client.new(config: config).push(work.copy_for(Time.now.to_f + delay)).nil?
      end
    end
  end
end
