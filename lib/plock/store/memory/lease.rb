# frozen_string_literal: true

require "etc" # for Record.own
require_relative "../../record"
require_relative "../support/lease_state"

module Plock
  module Testing
    # A request for a key in a {MemoryBackend}, and then the lease that it is granted. It changes
    # only under the backend's mutex, and its times are on the backend's clock.
    #
    # @api private
    class MemoryLease < Store::LeaseState
      # @return [Hash{Symbol => Object}] host, pid, thread and label, as {Status} reports them
      attr_reader :owner

      # @return [Float, nil] since when it waits, and until when; nil: it has never waited
      attr_reader :since, :deadline

      # @return [Float, nil] when it is renewed next
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

      # @return [Boolean] was the key held, or another request before this one?
      def contended? = !@since.nil?

      def answer = @answer << true

      # Waits for the answer, as a thread or as a fiber.
      def await = @answer.pop

      def granted? = !fence.nil?

      # Renews it at the moment when that was due.
      def renew
        now = @renew_at
        date(now, ttl, [[ttl, @limit && (@limit - now)].compact.min, @valid_until - now].max)
        notice([:renewed, id, 0.0]) if Events.renewals
      end

      # The renewal has failed, and is tried again until the lease ends.
      def put_off
        @renew_at += ttl / RETRIES_PER_TTL
        @renew_at = nil unless @renew_at < @valid_until
      end

      # The first reason counts.
      def finish(reason)
        @ended ||= reason
        @renew_at = nil
      end

      # It is the parent's: it is neither renewed nor reported as lost.
      def forget
        @renew_at = nil
        @watch = false
      end

      # The key stays taken, although the lease has ended.
      def keep_until(time) = @valid_until = time

      # @return [Float] on the backend's clock
      def granted_at = @acquired_at

      # @return [Float] on the backend's clock
      def expires_at = @valid_until

      # @return [Float] on {Clock}
      def acquired_at = @store.real(@acquired_at)

      # @return [Float] on {Clock}
      def valid_until = look { @store.real(@valid_until) }

      def valid? = look { super() }

      def lost? = look { super() }

      private

      def clock = @store

      # Carries out all that is due, and then runs the block.
      def look(&block) = @store.with(key, &block)

      alias alone look

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
