# frozen_string_literal: true

require "etc" # for Record.own
require_relative "../../record"
require_relative "../support/lease_state"

module Plock
  module Testing
    # A request for a key in a {MemoryBackend}, which becomes a lease when it is granted. A
    # MemoryLease changes only under the backend's mutex. Its times are on the backend's clock.
    #
    # @api private
    class MemoryLease < Store::LeaseState
      # @return [Hash{Symbol => Object}] host, pid, thread and label, as {Status} reports them
      attr_reader :owner

      # @return [Float, nil] when the request began to wait, and when it gives up; nil: it has never
      #   waited
      attr_reader :since, :deadline

      # @return [Float, nil] when the lease is renewed next; nil: never
      attr_reader :renew_at

      # @param options [Hash{Symbol => Object}] as for {Store::LeaseState}
      def initialize(backend, key, ttl, token: Plock.token, **options)
        super(backend, key, token, **options)
        @ttl = ttl
        @owner = Record.own(label)
        @answer = Thread::Queue.new
      end

      def wait_until(deadline, now)
        @deadline = deadline
        @since = now
      end

      # @return [Boolean] was the key held, or another request queued before this one?
      def contended? = !@since.nil?

      def answer = @answer << true

      # Waits for the answer. The caller can be a thread or a fiber.
      def await = @answer.pop

      def granted? = !fence.nil?

      # Renews the lease as of the moment when the renewal was due.
      def renew
        now = @renew_at
        date(now, ttl, [[ttl, @limit && (@limit - now)].compact.min, @valid_until - now].max)
        notice([:renewed, id, 0.0]) if Events.renewals
      end

      # Called when the renewal has failed. The renewal is tried again until the lease expires.
      def put_off
        @renew_at += ttl / RETRIES_PER_TTL
        @renew_at = nil unless @renew_at < @valid_until
      end

      # Ends the lease. If it has already ended, it keeps the first reason.
      def finish(reason)
        @ended ||= reason
        @renew_at = nil
      end

      # Called in a forked child for a lease of the parent process. As a result, the child neither
      # renews the lease nor reports it as lost.
      def forget
        @renew_at = nil
        @watch = false
      end

      # Keeps the key taken until `time`, although the lease has ended.
      def keep_until(time) = @valid_until = time

      # @return [Float] on the backend's clock
      def granted_at = @acquired_at

      # @return [Float] on the backend's clock
      def expires_at = @valid_until

      # @return [Float] a time of {Clock}
      def acquired_at = @store.real(@acquired_at)

      # @return [Float] a time of {Clock}
      def valid_until = look { @store.real(@valid_until) }

      def valid? = look { super() }

      def lost? = look { super() }

      private

      def clock = @store

      # Carries out everything that is due, and then runs the block.
      def look(&block) = @store.with(key, &block)

      def alone(_deadline = nil, &block) = look(&block)

      def end_of(asked_at, _ttl, left) = asked_at + left

      def date(now, ttl, left)
        @ttl = ttl
        @valid_until = end_of(now, ttl, left)
        due = now + renewed_after(ttl)
        @renew_at = (due if @renew && (@limit.nil? || due < @limit))
      end
    end
  end
end
