# frozen_string_literal: true

require_relative "../guard/push"
require_relative "../guard/run"
require_relative "adapter"
require_relative "work"

module Plock
  module ActiveJob
    # Included in each guarded job class. A job that is guarded in its queue acquires its key when
    # it is enqueued, and is stored with its {Guard::JobState}, called the ticket. {Guard::Run}
    # describes the run.
    #
    # The run wraps all other callbacks of `perform`, so the key is acquired before them and
    # released after them. `retry_on` and `discard_on` see the guard's errors, so they can handle
    # {Guard::Conflict}, for example.
    #
    # The key of a failed job stays taken if `retry_job` or `retry_on` enqueues the job again, or
    # if its adapter retries it. Otherwise the key is released when `perform_now` ends.
    #
    # `perform_all_later` runs no callbacks, so the jobs that it enqueues acquire their key when
    # they start, and hold it only while they run.
    #
    # A job that has started does not acquire a key when it is enqueued again, so its retry cannot
    # be refused.
    #
    # @api private
    module Guarded
      def self.included(job_class)
        super
        job_class.set_callback(:perform, :around, prepend: true) do |job, inner|
          job.plock_run(inner)
        end
      end

      def plock_ticket
        @plock_ticket ||= Guard::JobState.new
      end

      def serialize
        plock_ticket.empty? ? super : super.merge(Guard::JobState::NAME => plock_ticket.to_h)
      end

      def deserialize(job_data)
        super
        @plock_ticket = Guard::JobState.read(job_data[Guard::JobState::NAME])
        @plock_dequeued = true
      end

      def perform_now
        ended = false
        @plock_started = true # so that `retry_job` acquires no key
        value = super
        ended = true
        value
      ensure
        Interrupts.complete { plock_close(ended) }
      end

      def plock_run(inner)
        Guard::Run.new(Work.new(self, rescheduler: method(:plock_reschedule))).call { inner.call }
      end

      private

      def raw_enqueue
        return super if Adapter.pretends?(queue_adapter)
        return plock_enqueue { super } unless Adapter.waits_for_commit?(self.class, queue_adapter)

        self.successfully_enqueued = true
        ::ActiveRecord.after_all_transactions_commit do
          self.successfully_enqueued = false
          plock_enqueue { super() }
        end
      end

      # ActiveJob does not notice if a Sidekiq middleware stops the push, so this method checks.
      def plock_enqueue
        first = self.class.plock_guard.queued? && plock_ticket.empty? && !@plock_started
        return if first && !plock_take

        yield
        self.successfully_enqueued = false if Adapter.stopped?(queue_adapter, self)
        plock_pass_on unless first
      ensure
        Interrupts.complete { plock_give_back(0.0) if first && !successfully_enqueued? }
      end

      def plock_take
        push = Guard::Push.new(Work.new(self, rescheduler: method(:plock_put_off)), due: plock_due)
        unless push.call
          self.enqueue_error = push.conflict
          return false
        end

        give_back = -> { Interrupts.complete { plock_give_back(0.0) } }
        Adapter.on_rollback(queue_adapter, &give_back) if plock_ticket.lease
        true
      end

      def plock_due = scheduled_at ? [scheduled_at.to_f - Time.now.to_f, 0.0].max : 0.0

      # Postpones the job when it is enqueued. A job that is already scheduled for a later time
      # keeps that time.
      def plock_put_off(_work, delay)
        return false unless Adapter.schedules?(queue_adapter)

        self.scheduled_at = Time.at([scheduled_at.to_f, Time.now.to_f + delay].max)
        true
      end

      # Reschedules a job that has just been started. The start does not count as an execution,
      # because the job's own code has not run.
      def plock_reschedule(_work, delay)
        return false unless @plock_dequeued && Adapter.schedules?(queue_adapter)

        self.executions -= 1
        retry_job(wait: delay) || ((self.executions += 1) && false)
      end

      # Called after the job was enqueued again. If the previous run has handed the job's lease
      # back, the lease must last until the next run adopts it. So this method gives the lease a
      # longer TTL.
      def plock_pass_on
        return unless successfully_enqueued? && plock_ticket.lease

        plock_ticket.passed_on = plock_due
        if plock_ticket.left && plock_due.positive?
          Guard::Held.prolong(
            self.class.plock_guard.store, plock_ticket, Work.new(self).queued_span(plock_due)
          )
        end
      rescue Error => e
        Work.new(self).log(
          :warn,
          "#{self.class.name} #{job_id} may lose its key before it is run again: #{e.message}"
        )
      end

      def plock_close(ended)
        return if plock_ticket.lease.nil? || plock_ticket.passed_on
        return if !ended && Adapter.retries?(queue_adapter)

        plock_give_back(self.class.plock_guard.at_least)
      end

      def plock_give_back(most)
        Guard::Held.give_back(self.class.plock_guard.store, plock_ticket, most)
      rescue Error => e
        Work.new(self).log(:warn, "#{self.class.name} #{job_id} is done with; its key stays " \
                                  "taken until its time in the queue is over: #{e.message}")
      end
    end
  end
end
