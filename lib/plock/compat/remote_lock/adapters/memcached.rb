# frozen_string_literal: true

require_relative "../stores"
require_relative "../queued_acquire"
require_relative "../memcached/place"
require_relative "base"

class RemoteLock
  module Adapters
    # Locks in memcached, as processes of the original see them. Dalli is loaded, whatever client is
    # given.
    class Memcached < Base
      include QueuedAcquire

      # @param connection [Dalli::Client, MemCache, #with, String, Array<String>] a client of
      #   `dalli` or `memcache-client`, a pool of such, or servers. Servers and namespace of a
      #   client are taken over; the connections are plock's own.
      # @raise [ArgumentError] none of these
      def initialize(connection)
        super
        @place = RemoteLock::Memcached::Place.of(connection)
      end

      # @param (see Base#store)
      # @return [Boolean]
      # @raise [ArgumentError] seconds or a key that cannot be right
      # @raise [Plock::Error] the store failed
      def store(key, seconds)
        @place.take(key, uid, span(seconds))
      end

      # @param (see Base#has_key?)
      # @return [Boolean]
      # @raise (see #store)
      def has_key?(key)
        @place.held?(key, uid)
      end

      private

      def turns = @place.turns

      def free(key) = @place.free(key, uid)

      def free_with(key, turn)
        free(key)
      ensure
        turn.release
      end
    end
  end
end
