# frozen_string_literal: true

require_relative "errors"

module Plock
  module Guard
    # Handles a job whose key is held. Each outcome emits an event, and logs a line that names the
    # holder.
    #
    # If the job's own earlier run holds the key, the job is never dropped. At a shutdown, for
    # example, Sidekiq pushes jobs back into their queues before it ends the threads that run them.
    # Such a job is rescheduled until its old run ends.
    #
    # @api private
    class Collision
      # The longest delay of a job in seconds. A random part of up to JITTER times the delay is
      # added, so that jobs that were refused together do not return together.
      DELAY_MAX = 60.0
      JITTER = 0.25
      private_constant :DELAY_MAX, :JITTER

      # The delay starts at one second, and doubles with each conflict.
      #
      # @param times [Integer] number of earlier conflicts
      # @return [Float] seconds
      def self.delay(times)
        longest = DELAY_MAX / (1 + JITTER)
        [2.0**[times, 10].min, longest].min * (1 + (rand * JITTER))
      end

      # @param status [Status, nil] the holder of the key, if known
      # @param waited [Float] seconds that the job has waited for the key
      def initialize(work, status, waited)
        @work = work
        @status = status
        @waited = waited
      end

      # @return [Boolean] does an earlier run of the same job hold the key?
      def own? = !@status.nil? && @status.holders.any? { |holder| holder.label == @work.label }

      # Handles a conflict at the start of the job.
      #
      # @return [Symbol] the outcome: `:rescheduled`, `:discarded` or `:handled`
      # @raise [Conflict]
      def at_start = own? ? wait_for_old_run : carry_out(wish)

      # Reschedules a job whose earlier run seems to hold its key. This is not counted as a
      # conflict.
      #
      # @return [Symbol] `:rescheduled`
      # @raise [Conflict] the job cannot be rescheduled, for example because it runs inline
      def wait_for_old_run
        reschedule("its own earlier run has not ended", @work.ticket.conflicts) || refuse
      end

      # Handles a conflict at the push of the job.
      #
      # @param again [Boolean] was the job pushed before, so that this push cannot be refused?
      # @return [Symbol] an outcome as {#at_start} returns it; or `:go`, which means that the job
      #   is pushed without a lease, and asks for the key when it starts
      # @raise [Conflict]
      def at_push(again)
        return :go if own?

        wish = self.wish
        return :go if again && (wish != :reschedule || exhausted?)

        carry_out(wish)
      end

      def conflict
        Conflict.new(
          "#{@work.label} cannot have its key: #{who}", key: @work.key, status: @status,
          job_class: @work.name, job_id: @work.id, conflicts: conflicts
        )
      end

      private

      def wish
        wish = @work.guard.on_conflict
        wish.respond_to?(:call) ? wish.call(conflict) : wish
      end

      def carry_out(wish)
        case wish
        when :reschedule
          (!exhausted? && reschedule("conflict #{conflicts}", conflicts)) || refuse
        when :retry then refuse
        when :discard then conclude(:discarded, :warn, "dropped")
        else conclude(:handled, :info, "left to on_conflict:")
        end
      end

      def conflicts = @work.ticket.conflicts + 1

      def exhausted? = !@work.guard.max_conflicts.nil? && conflicts > @work.guard.max_conflicts

      # @param counted [Integer] number of conflicts to record in the ticket
      def reschedule(why, counted)
        before, @work.ticket.conflicts = @work.ticket.conflicts, counted
        delay = Collision.delay(before)
        if @work.reschedule(delay)
          conclude(:rescheduled, :info, "put off for #{delay.round(1)} s (#{why})", delay: delay)
        else
          @work.ticket.conflicts = before
          nil
        end
      end

      def refuse
        conclude(:refused, :info, "refused")
        raise conflict
      end

      def conclude(outcome, severity, words, **details)
        @work.log(severity, "#{@work.label} #{words}: #{who}")
        @work.tell(:"job_#{outcome}", @waited, holder: @status&.label, **details)
        outcome
      end

      def who = "#{@work.key.inspect} is #{@status || "held"}"
    end
  end
end
