# frozen_string_literal: true

require_relative "../stores"
require_relative "../queued_acquire"
require_relative "../memcached/place"
require_relative "base"

class RemoteLock
  module Adapters
    # Locks in memcached that processes using the original gem also see. This adapter always needs
    # the gem `dalli`, even if it is given a client of another gem.
    class Memcached < Base
      include QueuedAcquire

      # @param connection [Dalli::Client, MemCache, #with, String, Array<String>] a client of
      #   `dalli` or `memcache-client`, a pool of such clients, or the addresses of servers. plock
      #   uses the client's servers and namespace, but opens its own connections.
      # @raise [ArgumentError] the connection is none of these
      def initialize(connection)
        super
        @place = RemoteLock::Memcached::Place.of(connection)
      end

      # @param (see Base#store)
      # @return [Boolean]
      # @raise [ArgumentError] `seconds` or `key` is invalid
      # @raise [Plock::Error] the store failed
      def store(key, seconds) = @place.take(key, owner(key), span(seconds))

      # @param (see Base#has_key?)
      # @return [Boolean]
      # @raise (see #store)
      def has_key?(key) = @place.held?(key, owner(key))

      # @api private
      def turns = @place.turns

      private

      def free(key) = @place.free(key, owner(key))

      def free_with(key, turn)
        free(key)
      ensure
        turn.release
      end
    end
  end
end
