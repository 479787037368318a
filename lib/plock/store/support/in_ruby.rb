# frozen_string_literal: true

require "etc" # Record reads the name of this host from it
require_relative "../../locking"
require_relative "lease_state"
require_relative "hold"
require_relative "acquire_request"
require_relative "debts"
require_relative "renewal"
require_relative "scheduler"
require_relative "pool"
require_relative "reach"
require_relative "../../record"

module Plock
  class Store
    # The base of the stores in Ruby. docs/new-store.md lists the methods of such a store. If its
    # {Pool} is in `@pool`, it needs no `disconnect`.
    #
    # @api private
    module InRuby
      include Locking

      SPANS = (0.001..3600.0).freeze

      # Closes the connections that are not in use. The next use of the store opens new ones.
      #
      # @return [nil]
      def close
        @closed = true
        disconnect
        nil
      end

      # @see Locking#pool_status
      def pool_status = @pool&.status

      # Tells the scheduler when it must next look at the lease.
      def tend(lease)
        at = lease.due_at
        @scheduler.schedule(lease, at) if at
      end

      def forget(lease)
        @scheduler.cancel(lease) if lease.due_at
      end

      # Renews leases for the same span, one after another. A store that can renew them in one
      # request overrides this.
      #
      # @yieldparam lease [LeaseState]
      # @yieldparam answer [Boolean, nil] was the lease ours? nil: the store did not answer
      def prolong_all(leases, span)
        leases.each do |lease|
          answer =
            begin
              prolong(lease, span)
            rescue Error
              nil
            end
          yield lease, answer
        end
      end

      # @return [Float] seconds
      attr_reader :attempt_timeout

      # @return [Float] a time of {Clock}, at which a release that begins now must have ended
      def release_deadline = Clock.now + Background.at_most(attempt_timeout)

      # @return [Reach, nil] nil: a request tries until its `wait:` is over
      attr_reader :reach

      # The store has just failed, so the caller must not wait for it.
      def take_back_later(lease)
        lease = stand_in_for(lease)
        debt = Debts.add(Float::INFINITY)
        @scheduler.call_later do
          take_back(lease)
          nil
        ensure
          Debts.pay(debt)
        end
      end

      # Repeats a release that failed or was interrupted, until it succeeds or the lease expires.
      #
      # @param keep [Float] for how many more seconds the key stays taken
      def give_back_later(lease, keep)
        kept_until = Clock.now + keep
        # a lease of {ByOwner} has no `valid_until`
        until_time = [lease.valid_until || Float::INFINITY, kept_until].max
        debt = Debts.add(until_time)
        @scheduler.retry_until(until_time) do
          give_back(lease, [kept_until - Clock.now, 0.0].max)
          Debts.pay(debt)
          nil
        end
      end

      # @api private
      # Releases all holds. With a budget, a failed release raises no error, and the scheduler
      # repeats it.
      #
      # @param budget [Float, nil] seconds for all releases together
      def release_all(holds, keep, budget)
        deadline = budget && (Clock.now + budget)
        later = ->(lease) { lease.release_later(keep) }
        Locking::ReleaseEach.call(holds.map(&:lease), raises: budget.nil?, later: later) do |lease|
          lease.release(keep, deadline)
        end
      end

      # @api private
      # Moves a lease to a new token. If the adoption is interrupted, or its answer is lost, the
      # lease is taken back, because no other code knows the new token.
      #
      # @param heir [String, nil] the dump of another lease, whose token becomes the new token. The
      #   lease then stays, because other processes know that token
      def adopt_hold(dump, renew, max_hold, watch, ttl = nil, heir = nil, replicas: nil, &given)
        key, token, fence, granted, share = StateHold.read(dump, kind)
        known = fence && (share.nil? || can?(:semaphores))
        raise ArgumentError, "not the dump of a lease" unless known

        lease = lease_for(key, share: share, renew: renew, max_hold: max_hold, watch: watch)
        lease.token = StateHold.read(heir, kind)[1] if heir
        lease.ttl = ttl || granted
        undo = method(:take_back_later)
        cleanup = heir ? -> { lease.leave if lease.fence } : -> { give_up(lease, undo) }
        handing_out(given, cleanup) do
          asked_at = Clock.now
          fence, left = take_over(lease, token, ttl, granted)
          lease.given(fence, asked_at, lease.ttl, left) if fence
          undo = nil
          hold_of(lease, 0.0, false) if fence
        end
      end

      private

      def disconnect = @pool.close

      def config_of(options)
        config = Locking::StoreConfig.extract(options)
        raise ArgumentError, "unknown keyword: #{options.keys.first.inspect}" if options.any?

        config
      end

      def set_up(config, attempt_timeout)
        Locking::Arguments.release(config.release, unable)
        @config = config
        @attempt_timeout = check_seconds("attempt_timeout", attempt_timeout)
        @scheduler = Scheduler.new(->(leases) { Renewal.call(self, leases) })
        @closed = false
        Events::ActiveSupportBridge.attach
      end

      def reach_within(seconds) = Reach.new(check_seconds("unavailable_timeout", seconds))

      def take(key, ttl, wait, renew, max_hold, label, watch, share, asking, _replicas, &given)
        lease =
          lease_for(key, share: share, label: label, renew: renew, max_hold: max_hold, watch: watch)
        request = request_for(lease, ttl)
        started = Clock.now
        Dispatcher.start # reports leases that are garbage-collected
        handing_out(given, -> { request.leave }) do
          hold_of(lease, Clock.now - started, request.contended?) if request.run(wait, asking)
        end
      end

      def request_for(lease, ttl) = AcquireRequest.new(self, lease, ttl)

      # A copy for a background call, because the lease itself may have a new token by then.
      def stand_in_for(lease) =
        LeaseState
          .new(self, lease.key, lease.token, share: lease.share)
          .tap { |one| one.ttl = lease.ttl }

      # nil: the caller takes the keys one by one.
      def take_all(*) = nil

      def lease_for(key, **options) = LeaseState.new(self, key, Plock.token, **options)

      # @param undo [#call, nil] takes back a lease that may have been granted; nil: such a
      #   lease stays
      def give_up(lease, undo)
        if lease.fence && lease.ended.nil? then lease.release(0.0)
        else undo&.call(lease)
        end
      rescue *Locking::Acquisition::STORE_FAILURES
        nil # the scheduler repeats the release until the lease expires
      end

      def hold_of(lease, waited, contended) = StateHold.new(lease, kind, waited, contended)

      # The name of this kind of store in dumps.
      def kind = @kind ||= self.class.name[/\w+\z/].downcase.freeze

      def check_seconds(name, value)
        number = value.to_f if value.is_a?(Numeric) && value.real?
        return number if number && SPANS.cover?(number)

        misconfigured(
          "#{name} must be from #{SPANS.begin} to #{SPANS.end} seconds (got #{value.inspect})"
        )
      end

      def check_pool_size(value)
        sizes = Pool::SIZES
        return value if value.is_a?(Integer) && sizes.cover?(value)

        misconfigured(
          "pool_size must be an Integer from #{sizes.begin} to #{sizes.end} (got #{value.inspect})"
        )
      end

      def misconfigured(message)
        raise ConfigurationError, "#{self.class}: #{message}"
      end
    end
  end
end
