# frozen_string_literal: true

require_relative "../stores"
require_relative "../queued_acquire"
require_relative "base"

class RemoteLock
  module Adapters
    # Locks in Redis, as processes of the original see them.
    class Redis < Base
      include QueuedAcquire

      # @param connection [Redis, RedisClient, #with, String, Plock::Store] a client of `redis` or
      #   `redis-client`, a pool of such, a URL, or a store. Address and credentials of a client are
      #   taken over; the connections are plock's own.
      # @raise [ArgumentError] a store that is not one of Redis
      # @raise [Plock::ConfigurationError] no client of Redis, or a URL that cannot be right
      # @raise [Plock::UnsupportedError] a client that plock cannot stand in for
      def initialize(connection)
        super
        turns
      rescue Plock::UnavailableError
        nil # a pool has nobody to ask now, and may have later
      end

      # @param (see Base#store)
      # @return [Boolean]
      # @raise [ArgumentError] seconds that cannot be right
      # @raise [Plock::Error] the store failed
      def store(key, seconds)
        turns.lock_acquire(key, uid, span(seconds))
      end

      # @param (see Base#has_key?)
      # @return [Boolean]
      # @raise [Plock::Error] the store failed
      def has_key?(key)
        turns.lock_held?(key, uid)
      end

      private

      def turns = @turns ||= Stores.redis(@connection)

      def free(key) = turns.lock_release(key, uid)

      # In one request: whoever waits is called by it, and would have to wait for the second one,
      # too.
      def free_with(key, turn)
        since = turn.releasing
        ours, its = turns.__send__(:lock_release_with, key, uid, turn.hold)
        turn.released(its, since)
        ours
      ensure
        turn.release_over
      end
    end
  end
end
