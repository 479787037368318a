# frozen_string_literal: true

require_relative "../stores"
require_relative "../queued_acquire"
require_relative "base"

class RemoteLock
  module Adapters
    # Locks in Redis that processes using the original gem also see.
    class Redis < Base
      include QueuedAcquire

      # @param connection [Redis, RedisClient, #with, String, Plock::Store] a client of `redis` or
      #   `redis-client`, a pool of such clients, a URL, or a store. plock uses the client's
      #   address and credentials, but opens its own connections.
      # @raise [ArgumentError] the store is not in Redis
      # @raise [Plock::ConfigurationError] the connection is not a client of Redis, or the URL is
      #   invalid
      # @raise [Plock::UnsupportedError] plock cannot replace this client
      def initialize(connection)
        super
        turns
      rescue Plock::UnavailableError
        nil # a pool that has no client to lend now may have one later
      end

      # @param (see Base#store)
      # @return [Boolean]
      # @raise [ArgumentError] `seconds` is invalid
      # @raise [Plock::Error] the store failed
      def store(key, seconds) = turns.lock_acquire(key, owner(key), span(seconds))

      # @param (see Base#has_key?)
      # @return [Boolean]
      # @raise [Plock::Error] the store failed
      def has_key?(key) = turns.lock_held?(key, owner(key))

      # @api private
      def turns = @turns ||= Stores.redis(@connection)

      private

      def free(key) = turns.lock_release(key, owner(key))

      # One request releases the lock and the turn, and notifies the next waiter. With two requests,
      # the waiter would have to wait for the second one.
      def free_with(key, turn)
        since = turn.releasing
        ours, its = turns.lock_release_with(key, owner(key), turn.hold)
        if its.nil? # the server may not have received an earlier release of the turn
          turns.lock_release(turns.config.store_key(turn.key), turn.token)
        end
        turn.released(its, since)
        ours
      ensure
        turn.release_over
      end
    end
  end
end
