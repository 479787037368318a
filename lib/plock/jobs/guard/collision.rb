# frozen_string_literal: true

require_relative "backoff"
require_relative "errors"

module Plock
  module Guard
    # A job whose key somebody else has, and what becomes of it. Nothing does in silence: each way
    # out is an event, and a line in the log that says who has the key.
    #
    # Where it is the job's own earlier run that has the key, the job is none too many, and is never
    # dropped: Sidekiq, for one, pushes the jobs of a process that ends back before it ends their
    # threads. Such a job comes back until its old run is over.
    #
    # @api private
    class Collision
      # @param work [Work]
      # @param status [Status, nil] who has the key, as far as is known
      # @param waited [Float] seconds
      def initialize(work, status, waited)
        @work = work
        @status = status
        @waited = waited
      end

      # @return [Boolean] does this very job have the key already?
      def own?
        !@status.nil? && @status.holders.any? { |holder| holder.label == @work.label }
      end

      # Where the job was to start.
      #
      # @return [Symbol] what became of it: `:rescheduled`, `:discarded` or `:handled`
      # @raise [Conflict]
      def at_start
        own? ? wait_for_old_run : carry_out(wish)
      end

      # Of a job that has its key already, as far as is known: it comes back, which does not count.
      #
      # @return [Symbol] `:rescheduled`
      # @raise [Conflict] where it runs in the middle of its caller
      def wait_for_old_run
        reschedule("its own earlier run has not ended", @work.ticket.conflicts) || refuse
      end

      # Where the job was to be pushed.
      #
      # @param again [Boolean] is it one that was pushed before, by somebody who cannot be refused
      #   any more?
      # @return [Symbol] what became of it, as {at_start} says; `:go` where it is to be pushed
      #   without a lease: where it starts it is judged again
      # @raise [Conflict]
      def at_push(again)
        return :go if own?

        wish = self.wish
        return :go if again && (wish != :reschedule || exhausted?)

        carry_out(wish)
      end

      # @return [Conflict] that says all this
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

      def conflicts
        @work.ticket.conflicts + 1
      end

      def exhausted?
        !@work.guard.max_conflicts.nil? && conflicts > @work.guard.max_conflicts
      end

      # @param counted [Integer] conflicts that the job will have behind it
      def reschedule(why, counted)
        before, @work.ticket.conflicts = @work.ticket.conflicts, counted
        delay = Backoff.delay(before)
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

      def who
        "#{@work.key.inspect} is #{@status || "held"}"
      end
    end
  end
end
