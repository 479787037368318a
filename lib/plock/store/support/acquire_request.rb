# frozen_string_literal: true

require_relative "../../clock"
require_relative "backoff"

module Plock
  class Store
    # One request for a key of a store that is written in Ruby, from the first attempt to the lease,
    # or to the end of the caller's patience. All such stores wait here; each adds
    #
    # - `ask(request, how, deadline)`, one attempt: `:once` does not wait, `:place` takes or keeps a
    #   place in the wait queue, `:called` follows a call, `:look` a pause. It returns an {Answer},
    #   or nil;
    # - `line_up(request)`, what the request waits on: a {Place}, or what answers to the same;
    # - `take_back(grant, seconds, doubt:)`, which undoes whatever the server may have of the
    #   grant's token, once more later if a request may still arrive, and `take_back_later(grant)`;
    # - `attempt_timeout`, in seconds, and `reach`, a {Reach} or nil.
    #
    # @api private
    class AcquireRequest
      # What came of an attempt. With a fence it was granted, and `asked_at` dates the lease.
      # Otherwise `left` says for how many seconds the key is still held, and `first` whether this
      # request is the next one; both can be nil.
      Answer = Struct.new(:fence, :asked_at, :left, :first)

      # What a request waits on where nobody calls it, and the server lets it in.
      class Place
        # Prepares for calls.
        def ready; end

        # @return [Boolean] may it ask? Others of this process may have to go before.
        def first? = true

        # @return [Boolean] will it be called?
        def callable? = false

        # @return [Boolean] was it called?
        def await(seconds)
          sleep(seconds) if seconds.positive?
          false
        end

        # It goes on under a new token.
        def renew; end

        def leave; end
      end

      # Seconds between two looks of a request that nobody calls, and of one that can be called.
      FIRST_S = 0.004
      LONGEST_S = 0.25
      CALLED_S = 1.0

      # Seconds between two attempts after the store failed.
      AFTER_FAILURE_S = [0.02, 0.5].freeze

      # The last attempt of a request that waits has this long, though its patience ends. Seconds.
      GRACE_S = 0.05

      # How long a caller waits until nothing is left of its request; after that it is taken back in
      # the background. Seconds.
      AT_ONCE_S = 0.1

      # A request looks so much later than the lease of the holder ends.
      LATE_S = 0.001

      attr_reader :grant

      # @return [Float] seconds
      attr_reader :ttl

      # @param ttl [Float] seconds
      def initialize(store, grant, ttl)
        @store = store
        @grant = grant
        @grant.ttl = @ttl = ttl
        @contended = @doubt = @queued = @failed = false
      end

      def key = @grant.key

      # @return [Boolean] did another caller hold the key, or wait for it?
      def contended? = @contended

      # @return [Float] seconds until the caller's patience ends; 0 or less: it has
      def left = @patience - Clock.now

      # @param wait [Float] seconds
      # @return [Boolean] has the grant been given?
      def run(wait)
        @called_at = Clock.now
        @patience = @called_at + wait
        begin
          attempt
        rescue UnavailableError => e
          @failed = true
          raise if !left.positive? || @store.reach&.lost?(e, @called_at)

          start_again
          pause_after_failure
          raise unless left.positive?

          retry
        end
      end

      # The request came to nothing, or nobody took its lease: the server is to have nothing of it.
      # The caller waits for that a moment only, and not at all when the store did not answer.
      def leave
        @place&.leave
        if @grant.fence && @grant.ended.nil?
          @grant.release(0.0)
        elsif @failed
          @store.take_back_later(@grant)
        elsif @doubt || @queued || @grant.pending?
          @store.take_back(@grant, AT_ONCE_S, doubt: @doubt)
        end
      rescue *Locking::Acquisition::STORE_FAILURES, ConfigurationError
        @store.take_back_later(@grant)
      end

      private

      def attempt
        return true if @place.nil? && granted?(:once)
        return false unless left.positive?

        line_up
        return false unless wait_for_turn

        @place.leave
        true
      end

      # Nothing interrupts between the place in line and the request that has it: one that nobody
      # leaves would hold up the others.
      def line_up
        Thread.handle_interrupt(Object => :never) { @place ||= @store.line_up(self) }
        @place.ready
      end

      def wait_for_turn
        pause = Backoff.new(FIRST_S, LONGEST_S)
        how = :place
        loop do
          return true if @place.first? && granted?(how)
          return false unless left.positive?

          called = @place.await(until_next_look(pause))
          return false unless called || left.positive?

          pause.reset if called
          how = called ? :called : :look
        end
      end

      def until_next_look(pause)
        return left unless @place.first?

        longest = @place.callable? ? CALLED_S : pause.next
        longest = [longest, @holder_left + LATE_S].min if @first && @holder_left&.positive?
        [longest, left].min
      end

      def granted?(how)
        @doubt = true
        @queued = true unless how == :once
        asked_at = Clock.now
        # a server that is silent does not use up a long patience
        limit = asked_at + @store.attempt_timeout
        answer =
          @store.ask(
            self, how, how == :once ? limit : [[@patience, asked_at + GRACE_S].max, limit].min
          )
        @store.reach&.answered
        if answer&.fence
          @grant.given(answer.fence, answer.asked_at, @ttl)
          @doubt = @queued = false
          return true
        end

        @doubt = false
        @contended = true
        @holder_left, @first = answer&.left, answer&.first
        false
      end

      # Nobody knows what came of the last attempt: its token is never used again.
      def start_again
        @store.take_back_later(@grant) if @doubt || @queued
        @doubt = @queued = @failed = false
        @grant.token = Plock.token
        @place&.renew
      end

      def pause_after_failure
        @failures ||= Backoff.new(*AFTER_FAILURE_S, 2.0)
        sleep([@failures.next, left].min) if left.positive?
      end
    end
  end
end
