# frozen_string_literal: true

require_relative "../guard/push"
require_relative "payload"
require_relative "pushes"
require_relative "work"

module Plock
  module Sidekiq
    # When a job that is guarded in its queue is pushed for the first time, the middleware acquires
    # the job's key. When a scheduled job or a retry is due, Sidekiq's poller pushes the job once
    # more. At that push, the middleware asks for the key only if a conflict had rescheduled the
    # job.
    #
    # No key is acquired for a job that is not sent to Redis, as with Sidekiq::Testing and
    # `perform_inline`.
    class ClientMiddleware
      include ::Sidekiq::ClientMiddleware

      # Sidekiq calls this method for each push.
      #
      # @param job_class [Class, String]
      # @param item [Hash{String => Object}] the job
      # @return [Hash, false] the job; false if it must not be pushed
      # @raise [Guard::Conflict] another holder has the key, and `on_conflict:` refuses the push
      # @raise [Guard::InvalidKey] the guard's `key:` callable raised an error, or returned an
      #   invalid key
      # @raise [Error] the store failed
      def call(job_class, item, _queue, _pool)
        guard = Payload.guard_of(job_class)
        return yield unless guard&.queued? && (pushes = Pushes.current) && !testing?

        work = Work.new(guard, item, item["class"], method(:schedule))
        return yield unless pushes.again ? work.ticket.put_off : work.ticket.empty?

        (pushes.again ? take_again(work, item, pushes) : take(work, item, pushes)) && yield
      end

      private

      def testing? = defined?(::Sidekiq::Testing) && ::Sidekiq::Testing.enabled?

      # If JSON cannot represent the arguments, raises before the key is acquired.
      def take(work, item, pushes)
        work.arguments
        pushes.note(work)
        due = item["at"] ? item["at"] - Time.now.to_f : 0.0
        pushed = Guard::Push.new(work, due: [due, 0.0].max, again: pushes.again).call
        work.stamp
        pushed
      end

      # Sidekiq has already removed the job from its schedule or retry set, so the job must be
      # pushed even if the acquire fails. If the cause persists, the job raises the same error
      # when it starts, and then Sidekiq retries the job.
      def take_again(work, item, pushes)
        take(work, item, pushes)
      rescue StandardError => e # an application's callable may raise any error
        work.log(:error, "#{work.label} is queued unguarded: #{e.class}: #{e.message}")
        true
      end

      def schedule(work, delay) = work.schedule_for(Time.now.to_f + delay)
    end
  end
end
