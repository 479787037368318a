# frozen_string_literal: true

require "etc" # of which Record has the name of this host
require_relative "../locking"
require_relative "grant"
require_relative "grant_hold"
require_relative "acquire_request"
require_relative "renewal"
require_relative "scheduler"
require_relative "pool"
require_relative "reach"
require_relative "turns"
require_relative "../record"

module Plock
  class Store
    # What stores that are written in Ruby have in common: how a lease gets from whoever asked for it into the hands of the caller, and
    # what its {Grant} calls. Such a store has what {AcquireRequest} asks for, `prolong`, `still?`, `give_back`, `downgrade` and
    # `disconnect`, what {Locking} asks of every store besides {#take}, and a `@scheduler`.
    #
    # @api private
    module InRuby
      include Locking

      # Seconds.
      SPANS = (0.001..3600.0).freeze

      # Closes the connections that nobody uses at the moment. A store that is used after that opens again.
      #
      # @return [nil]
      def close
        @closed = true
        disconnect
        nil
      end

      # Has the scheduler look after a lease.
      def tend(grant)
        at = grant.due_at
        @scheduler.schedule(grant, at) if at
      end

      def forget(grant)
        @scheduler.cancel(grant)
      end

      # Renews leases for the same span, one after the other when the store cannot do it at once.
      #
      # @param grants [Array<Grant>]
      # @param span [Float] seconds
      # @return [Hash{Grant => Boolean, nil}] was it ours? nil: the store did not say
      def prolong_all(grants, span)
        grants.to_h do |grant|
          [grant, prolong(grant, span)]
        rescue Error
          [grant, nil]
        end
      end

      # @return [Float] seconds
      attr_reader :attempt_timeout

      # @return [Reach, nil] nil: a request tries until its patience ends
      attr_reader :reach

      # Takes back what may have been granted, when the store has just failed and would hold up the
      # caller.
      def take_back_later(grant)
        grant = stand_in_for(grant)
        @scheduler.call_later do
          take_back(grant)
          nil
        end
      end

      # A release that failed, or was interrupted, is tried again until the lease is over.
      #
      # @param keep [Float] seconds that the key is to stay taken, from now on
      def give_back_later(grant, keep)
        kept_until = Clock.now + keep
        @scheduler.retry_until([grant.valid_until, kept_until].max) do
          give_back(grant, [kept_until - Clock.now, 0.0].max)
          nil
        end
      end

      private

      # What all of them have, from the options that all of them take.
      def set_up(options, attempt_timeout, unavailable_timeout)
        @profile = Locking::Profile.extract(options)
        raise ArgumentError, "unknown keyword: #{options.keys.first.inspect}" if options.any?

        @attempt_timeout = check_seconds("attempt_timeout", attempt_timeout)
        @reach = Reach.new(check_seconds("unavailable_timeout", unavailable_timeout))
        @scheduler = scheduler
        @closed = false
      end

      def take(key, ttl, wait, renew, max_hold, label, watch, share, _asking, &given)
        grant = grant_for(key, share: share, label: label, renew: renew, max_hold: max_hold, watch: watch)
        request = request_for(grant, ttl)
        started = Clock.now
        Dispatcher.start # it reports a lease that is collected
        handing_out(given, -> { request.leave }) do
          hold_of(grant, Clock.now - started, request.contended?) if request.run(wait)
        end
      end

      def request_for(grant, ttl) = AcquireRequest.new(self, grant, ttl)

      def scheduler = Scheduler.new(->(grants) { Renewal.call(self, grants) })

      # The token that is to be taken back, whatever becomes of the grant.
      def stand_in_for(grant) = Grant.new(self, grant.key, grant.token, share: grant.share).tap { |one| one.ttl = grant.ttl }

      # One after the other, where nothing takes several at once.
      def take_all(*)
        nil
      end

      def grant_for(key, **options)
        Grant.new(self, key, Plock.token, **options)
      end

      # One that cannot be released keeps none of the others from it. With a budget, it is seen to later.
      #
      # @param budget [Float, nil] seconds for all of them
      def release_all(holds, keep, budget)
        deadline = budget && (Clock.now + budget)
        failure = nil
        left = holds.map(&:grant)
        answers = holds.map do
          left.shift.release(keep, deadline)
        rescue UnavailableError => e
          failure = e
          true
        end
        raise failure if failure && budget.nil?

        answers
      ensure
        left&.each { |grant| grant.release_later(keep) } # nothing masks the interrupts of a fiber
      end

      # Takes over what another token had. An adoption that is interrupted, or whose answer is lost, gives back what it may have got,
      # for nothing else knows the new token.
      #
      # @param lasting [Boolean] is the new token known to others, so that they can take it over?
      # @yield to ask the store
      # @yieldreturn [Array(Integer, Float, Float, Float), nil] the fence, when it was asked, its ttl, and what is left of it; nil: it
      #   was lost
      def adopting(grant, given, lasting:)
        doubt = !lasting
        handing_out(given, -> { give_up(grant, doubt) }) do
          fence, asked_at, ttl, left = yield
          grant.given(fence, asked_at, ttl, left) if fence
          doubt = false
          hold_of(grant, 0.0, false) if fence
        end
      end

      def give_up(grant, doubt)
        if grant.fence then grant.release(0.0)
        elsif doubt then take_back_later(grant)
        end
      rescue *Locking::Taking::STORE_FAILURES
        nil # it ends with its time
      end

      # @param dump [String, nil] of a lease whose token is to be used again
      def token_of(dump) = dump ? GrantHold.read(dump, kind)[1] : Plock.token

      def hold_of(grant, waited, contended)
        GrantHold.new(grant, kind, waited, contended)
      end

      # What the dumps of this store begin with.
      def kind
        self.class.name[/\w+\z/].downcase
      end

      def check_seconds(name, value)
        number = value.to_f if value.is_a?(Numeric) && value.real?
        return number if number && SPANS.cover?(number)

        misconfigured("#{name} must be from #{SPANS.begin} to #{SPANS.end} seconds (got #{value.inspect})")
      end

      def check_size(name, value, sizes)
        return value if value.is_a?(Integer) && sizes.cover?(value)

        misconfigured("#{name} must be an Integer from #{sizes.begin} to #{sizes.end} (got #{value.inspect})")
      end

      def misconfigured(message)
        raise ConfigurationError, "#{self.class}: #{message}"
      end
    end
  end
end
