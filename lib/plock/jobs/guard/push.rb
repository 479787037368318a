# frozen_string_literal: true

require_relative "asking"

module Plock
  module Guard
    # The push of a job that holds its key in the queue.
    #
    # This process acquires the key for as long as the job may be queued. Then it dumps the lease
    # into the job state, and from then on the lease belongs to the job. If the process is killed
    # before the push, the job is lost, and the key is free when `queued_ttl:` is over. If the
    # push fails in a live process, that process releases the lease.
    #
    # @api private
    class Push
      include Asking

      # @param due [Float] seconds until the job is due
      # @param again [Boolean] was the job pushed before, so that this push cannot be refused?
      def initialize(work, due: 0.0, again: false)
        @work = work
        @due = due
        @again = again
        @began = Clock.now
      end

      # @return [Conflict, nil] the conflict, if another job has the key
      attr_reader :conflict

      # @return [Boolean] must the job be pushed, with its lease or without one?
      # @raise [Conflict]
      # @raise [InvalidKey]
      # @raise [Error] the store failed
      def call
        error, status = refusal_for_good { take }
        return true unless error
        return settle(status) if error.is_a?(TimeoutError)

        if @again
          @work.log(:warn, "#{@work.label} is queued unguarded: #{error.message}")
        else
          go_without(error)
        end
        true
      end

      private

      def take
        guard, ticket = @work.guard, @work.ticket
        @work.acquire(ttl: @work.queued_span(@due), wait: 0) do |lease|
          ticket.lease = lease.dump
        ensure
          # a signal handler may have raised just before `dump` returned
          Interrupts.complete { ticket.lease ||= lease.dumped }
        end
        ticket.keep_until = Clock.wall + guard.at_least if guard.at_least.positive?
        ticket.put_off = false
      end

      def settle(status)
        collision = Collision.new(@work, status, Clock.now - @began)
        @conflict = collision.conflict
        outcome = collision.at_push(@again)
        @work.ticket.put_off = true if outcome == :rescheduled
        %i[go rescheduled].include?(outcome)
      end
    end
  end
end
