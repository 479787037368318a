# frozen_string_literal: true

require_relative "asking"

module Plock
  module Guard
    # A job on its way into a queue, that is to have its key there.
    #
    # This process acquires the key, for as long as the job may be queued; then the lease is dumped
    # into the job's ticket, and belongs to whoever has the job. A process that is killed before
    # that leaves a key that is free when `queued_ttl:` is over; the same goes for one that is
    # killed between that and the push, for nobody has the job then. A push that fails while the
    # process lives gives the lease back.
    #
    # @api private
    class Push
      include Asking

      # @param work [Work]
      # @param due [Float] seconds until the job is due
      # @param again [Boolean] is it a job that was pushed before, so that it cannot be refused any
      #   more?
      def initialize(work, due: 0.0, again: false)
        @work = work
        @due = due
        @again = again
        @began = Clock.now
      end

      # @return [Conflict, nil] why it is not pushed as it was to be
      attr_reader :conflict

      # @return [Symbol] `:go`: it can be pushed, with its lease or without; else what became of it,
      #   as {Collision#at_push} says. One that was rescheduled is to be pushed, too.
      # @raise [Conflict]
      # @raise [InvalidKey]
      # @raise [Error] the store failed
      def call
        error, status = refusal_for_good { take }
        return :go unless error
        return settle(status) if error.is_a?(TimeoutError)

        if @again
          @work.log(:warn, "#{@work.label} is queued unguarded: #{error.message}")
        else
          go_without(error)
        end
        :go
      end

      private

      def take
        guard, ticket = @work.guard, @work.ticket
        lease =
          Held.acquire(
            @work.store, @work.key, guard.limit, ttl: @work.queued_span(@due), wait: 0,
            label: @work.label
          )
        Thread.handle_interrupt(UNDISTURBED) { ticket.lease = lease.dump }
        ticket.keep_until =
          Process.clock_gettime(Process::CLOCK_REALTIME) +
          guard.at_least if guard.at_least.positive?
        ticket.put_off = false
      end

      def settle(status)
        collision = Collision.new(@work, status, Clock.now - @began)
        @conflict = collision.conflict
        outcome = collision.at_push(@again)
        @work.ticket.put_off = true if outcome == :rescheduled
        outcome
      end
    end
  end
end
