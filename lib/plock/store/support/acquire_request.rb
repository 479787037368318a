# frozen_string_literal: true

require_relative "../../clock"
require_relative "backoff"

module Plock
  class Store
    # One request for a key of a store in Ruby, from the first attempt to the lease or the end of
    # `wait:`. docs/new-store.md says what the store's methods `ask`, `line_up` and `take_back` do.
    # `take_back_later` does in the background what `take_back` does. An answer of nil is a refusal
    # without details.
    #
    # @api private
    class AcquireRequest
      # The result of an attempt. If `fence` is set, the lease was granted, and its TTL runs from
      # `asked_at`. Otherwise `left` is how many seconds the holder's lease still lasts, and
      # `first` tells whether this request is the next in the queue. `left` and `first` can be
      # nil.
      Answer = Struct.new(:fence, :asked_at, :left, :first)

      # The place of a request in the wait queue. To call a request is to tell it that its turn
      # may have come. No thread can call a request in a plain Place, so such a request polls the
      # server.
      class Place
        # Prepares this process to receive calls.
        def ready; end

        # False if an earlier request of this process must ask the store first.
        def first? = true

        def callable? = false

        # @return [Boolean] was the request called within `seconds`?
        def await(seconds)
          sleep(seconds) if seconds.positive?
          false
        end

        # Called when the request has a new token.
        def renew; end

        def leave; end
      end

      # Seconds between two attempts of a request. A request that can be called pauses for CALLED_S.
      # The pauses of other requests grow from FIRST_S to LONGEST_S.
      FIRST_S = 0.004
      LONGEST_S = 0.25
      CALLED_S = 1.0

      # Seconds between two attempts after the store failed: the first and the longest pause.
      AFTER_FAILURE_S = [0.02, 0.5].freeze

      # A call may end this many seconds late, because of an attempt that has just begun, or because
      # its request is taken back. After that, the call may look for the holder for up to 20 ms, for
      # the message of a TimeoutError.
      GRACE_S = 0.025

      # A caller waits at most this many seconds while its request is taken back. After that, the
      # store continues in the background.
      AT_ONCE_S = 0.1

      # The first waiter asks the store again this many seconds after the end of the holder's lease.
      LATE_S = 0.001

      # Failures that can occur merely because the store is busy with other callers.
      SLOW = %i[timed_out busy saturated].freeze
      private_constant :SLOW

      attr_reader :lease, :ttl

      # @param ttl [Float] seconds
      def initialize(store, lease, ttl)
        @store = store
        @lease = lease
        @lease.ttl = @ttl = ttl
        @contended = @doubt = @queued = @failed = false
      end

      def key = @lease.key

      # Did another caller hold the key or wait for it?
      def contended? = @contended

      def left = [@patience - Clock.now, 0.0].max

      # @param wait [Float] seconds
      # @param asking [Float] seconds since a call for several keys began
      # @return [Boolean] was the lease granted?
      def run(wait, asking = 0.0)
        @called_at = Clock.now
        @patience = @called_at + wait
        # Only the first attempt of a call may outlast `wait:`.
        @ends_at = [@patience, @called_at + @store.attempt_timeout - asking].max
        begin
          attempt
        rescue UnavailableError => e
          @failed = true
          if left.positive?
            raise if @store.reach&.lost?(e, @called_at)

            start_again
            pause ||= Backoff.new(*AFTER_FAILURE_S, 2.0)
            sleep([pause.next, left].min)
            retry if left.positive?
          end
          raise unless refused_until_late?(e)

          false
        end
      end

      # Called if the request failed, or if the caller was interrupted before it had the lease. The
      # caller waits at most AT_ONCE_S, and not at all if the store did not answer, or if the call
      # is late.
      def leave
        @place&.leave
        if @lease.fence && @lease.ended.nil?
          @lease.release(0.0)
        elsif @failed
          @store.take_back_later(@lease)
        elsif @doubt || @queued || @lease.pending?
          within = [AT_ONCE_S, @ends_at + GRACE_S - Clock.now].min
          return @store.take_back_later(@lease) unless within.positive?

          @store.take_back(@lease, within, doubt: @doubt)
        end
      rescue *Locking::Acquisition::STORE_FAILURES, ConfigurationError
        @store.take_back_later(@lease)
      end

      private

      def attempt
        return true if @place.nil? && granted?(:once)
        return false unless left.positive?

        # an interrupted request that did not know its place could not leave it, and would block the
        # requests behind it
        Thread.handle_interrupt(UNINTERRUPTED) { @place ||= @store.line_up(self) }
        @place.ready
        return false unless wait_for_turn

        @place.leave
        true
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
        # `limit` keeps a silent server from using up a long `wait:`
        limit = asked_at + @store.attempt_timeout
        longest = [how == :once ? @ends_at : @patience, asked_at + GRACE_S].max
        answer = @store.ask(self, how, [longest, limit].min)
        @store.reach&.answered
        if answer&.fence
          @lease.given(answer.fence, answer.asked_at, @ttl)
          @doubt = @queued = false
          return true
        end

        @doubt = false
        @contended = true
        @holder_left, @first = answer&.left, answer&.first
        false
      end

      # Does the failure count as an ordinary timeout of `wait:`? It does if the store refused the
      # request earlier, and is now only slow: other callers may be keeping it busy.
      def refused_until_late?(error)
        @contended && SLOW.include?(error.code) && !@store.reach&.lost?(error, @called_at)
      end

      # The server may still carry out the failed attempt, so the next one has a new token.
      def start_again
        @store.take_back_later(@lease) if @doubt || @queued
        @doubt = @queued = @failed = false
        @lease.token = Plock.token
        @place&.renew
      end
    end
  end
end
