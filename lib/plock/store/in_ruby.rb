# frozen_string_literal: true

require "etc" # of which Record has the name of this host
require_relative "../locking"
require_relative "grant"
require_relative "grant_hold"
require_relative "keeper"
require_relative "pool"
require_relative "turns"
require_relative "../record"

module Plock
  class Store
    # What stores that are written in Ruby have in common: how a lease gets from whoever asked for it into the hands of the caller, and
    # what its {Grant} calls. Such a store has `asking_for`, `prolong`, `still?`, `give_back`, `downgrade` and `disconnect`, and what
    # {Locking} asks of every store besides {#take}.
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

      # @api private
      # Has the keeper see to a grant.
      #
      # @return [void]
      def tend(grant)
        @keeper.tend(grant)
      end

      # @api private
      # @return [void]
      def forget(grant)
        @keeper.forget(grant)
      end

      # @api private
      # Takes back what may have been granted, where the store has just failed and would hold up whoever asked.
      #
      # @return [void]
      def settle_later(grant)
        @keeper.errand do
          settle(grant)
          nil
        end
      end

      private

      def take(key, ttl, wait, renew, max_hold, label, watch, share, _asking, &given)
        grant = grant_for(key, share: share, label: label, renew: renew, max_hold: max_hold, watch: watch)
        asking = asking_for(grant, ttl)
        started = Clock.now
        Dispatcher.start # whose hold is collected must find it there
        handing_out(given, -> { asking.leave }) do
          hold_of(grant, Clock.now - started, asking.contended?) if asking.run(wait)
        end
      end

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
        answers = holds.map do |hold|
          hold.grant.release(keep, deadline)
        rescue UnavailableError => e
          failure = e
          true
        end
        raise failure if failure && budget.nil?

        answers
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
          doubt = false
          hold_of(grant.given(fence, asked_at, ttl, left), 0.0, false) if fence
        end
      end

      def give_up(grant, doubt)
        if grant.fence then grant.release(0.0)
        elsif doubt then take_adoption_back(grant)
        end
      rescue *Locking::Taking::STORE_FAILURES
        nil # it ends with its time
      end

      # What may have been granted, where nobody waits for the answer.
      def take_adoption_back(grant) = settle_later(grant)

      # @param dump [String, nil] of a lease whose token is to be used again
      # @return [String]
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
        raise ConfigurationError.new("#{self.class}: #{message}", code: :bad_config)
      end

      def unsupported(message)
        raise UnsupportedError.new(message, code: :unsupported)
      end
    end
  end
end
