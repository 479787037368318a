# frozen_string_literal: true

require_relative "asking"
require_relative "held"

module Plock
  module Guard
    # One run of a guarded job. The leases that it holds depend on `during:`.
    #
    # *:running* The run acquires the key with a token of its own, renews the lease, and releases
    # it however the job ends. If the process is killed, the key is free at most one `ttl:` later.
    #
    # *:queued* The key has been held since the push, with the token in the ticket. The run
    # releases that lease, then starts the job. If the process is killed before the release, the
    # key is free when `queued_ttl:` is over.
    #
    # *:queued_and_running* The key has been held since the push, and stays held:
    # 1. The run acquires a lock on the job's id, because a queue may push a job back before its
    #    old run ends. The new run must wait until the old run has ended. If the process is killed
    #    at this step, the key is free when `queued_ttl:` is over.
    # 2. The run adopts the lease under a token of its own, with the TTL `ttl:`. From then on, the
    #    dump in the ticket is invalid. If the process is killed, the key is free at most one
    #    `ttl:` later.
    # 3. If the job succeeds, the run releases the lease, then the lock on the id. If the job
    #    fails or is pushed back, the run hands the lease back, with the TTL of a queued job and
    #    the token in the ticket. The dump in the ticket can then be adopted once more, so the
    #    queue can push back any earlier copy of the job. The process that next starts, kills or
    #    deletes the job ends the lease.
    #
    # If the lease was lost in the queue, or because a run was killed, the job is guarded only
    # while it runs.
    #
    # @api private
    class Run
      include Asking

      IGNORE = ->(_lease) {}
      private_constant :IGNORE

      def initialize(work)
        @work = work
        @guard = work.guard
        @ticket = work.ticket
        @began = Clock.now
      end

      # @yield the job
      # @return [Object] the job's value; nil if it has not run
      # @raise [Conflict]
      # @raise [InvalidKey]
      # @raise [Error] the store failed
      def call(&job)
        return started(&job) unless @guard&.runs?

        @ticket.lease ? carried_on(&job) : afresh(&job)
      end

      private

      def started(&job)
        error, status = end_queueing
        return job.call if error.nil? || collision(status).own?
        return collide(status) if error.is_a?(TimeoutError)

        go_without(error) if @guard
        without_store(&job)
      end

      # Ends the job's hold of its key in the queue. A job that was rescheduled at its push has
      # never held its key, so it acquires and releases the key now. If Sidekiq retries the job, the
      # retry does not know of that acquire, and acquires the key again. If `at_least:` still keeps
      # the key taken, the retry finds that the holder is the job itself, and runs.
      def end_queueing
        if @ticket.lease
          error = refusal { give_back }
          error && [error, nil]
        elsif @ticket.put_off && @guard
          refusal_for_good do
            @work.acquire(ttl: @guard.queued_ttl, wait: 0, at_least: @guard.at_least) do
              @ticket.put_off = false
            end
          end
        end
      end

      def afresh(&job)
        value = nil
        error, status = refusal_for_good do |entered|
          @work.acquire(
            **lease_options, wait: @guard.wait, at_least: @guard.at_least, renew: true
          ) do
            entered.call
            value = job.call
          end
        end
        return value unless error
        return collide(status) if error.is_a?(TimeoutError)

        go_without(error)
        job.call
      end

      def carried_on(&job)
        value = nil
        error = refusal do |entered|
          alone do
            @work.store.adopt(@ticket.lease, **lease_options, renew: true) do |lease|
              entered.call
              value = hold(lease, &job)
            end
          end
        end
        case error
        when nil
          value
        when TimeoutError
          collision(error.status).wait_for_old_run && nil
        when LeaseLost, ArgumentError
          lost_in_queue(error, &job)
        else
          go_without(error)
          without_store(&job)
        end
      end

      # Runs the job although the store failed. Then ends the lease from the push, because no
      # other process would end it.
      def without_store
        value = yield
        error = refusal { give_back }
        if error
          @work.log(:warn, "#{@work.label} is done; its key stays taken until its time in the " \
                           "queue is over: #{error.message}")
        end
        value
      end

      def give_back = Held.give_back(@work.store, @ticket, @guard ? @guard.at_least : Held::MOST)

      def alone(&block)
        @work.store.acquire(
          @work.run_key, ttl: @guard.ttl, wait: @guard.wait, renew: true, on_lost: IGNORE,
          label: @work.label, &block
        )
      end

      def lost_in_queue(error, &job)
        @ticket.lease = nil
        @work.log(:warn, "#{@work.label} had lost its lease before it started, and asks for " \
                         "another: #{error.message}")
        afresh(&job)
      end

      def hold(lease)
        done = false
        value = yield
        done = true
        value
      ensure
        Interrupts.complete do
          done && !@ticket.passed_on ? finish(lease) : pass_on(lease)
        end
      end

      def finish(lease)
        @ticket.lease = nil
        parting("is done; its key is free within #{@guard.ttl} s") do
          Held.settle(lease, @ticket.left_to_keep(@guard.at_least))
        end
      end

      def pass_on(lease)
        @ticket.left = true
        parting("may lose its key before it is run again") do
          Held.hand_back(@work.store, lease, @ticket, @work.queued_span(@work.due_again))
        end
      end

      # @param otherwise [String] the consequence if the store fails, for the log
      def parting(otherwise)
        yield
      rescue LeaseLost
        nil # on_lost: reports a loss that came before this call
      rescue *FAILURES => e
        @work.log(:warn, "#{@work.label} #{otherwise}: #{e.message}")
      end

      def collision(status) = Collision.new(@work, status, Clock.now - @began)

      def collide(status)
        collision(status).at_start
        nil
      end

      def lease_options
        {
          ttl: @guard.ttl, label: @work.label,
          on_lost: @guard.on_lost == :log ? method(:log_loss) : @guard.on_lost
        }
      end

      def log_loss(lease)
        @work.log(
          :error,
          "#{@work.label} has lost its lease on #{lease.key.inspect} (fence #{lease.fence}) " \
            "after #{lease.held_for.round(3)} s, while it runs: another holder may run at the " \
            "same time"
        )
      end
    end
  end
end
