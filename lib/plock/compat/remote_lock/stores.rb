# frozen_string_literal: true

class RemoteLock
  # Finds the store for an adapter's connection. Clients of one server share a store, because an
  # application may create an adapter for each lock.
  #
  # @api private
  module Stores
    MOST = 64
    private_constant :MOST

    @lock = Plock::BriefMutex.new
    @known = {}

    class << self
      # @param source [Object] a client of Redis, a pool of such clients, a URL, or a store
      # @raise [ArgumentError] the store is not in Redis
      # @raise [Plock::UnavailableError] the pool has no client to lend at the moment
      def redis(source)
        store = Plock::Locking === source ? source : opened(source)
        return store if Plock::Store === store

        raise ArgumentError, "#{store.url} is not in Redis: use RemoteLock::Adapters::Store"
      end

      # @param description [Object] a description that may contain a password; only its digest is
      #   kept
      def shared(description)
        digest = Plock.digest(description.inspect)
        known = @lock.synchronize { @known[digest] } || yield
        @lock.synchronize do
          # if two threads have opened the same store, the one registered first is used
          known = @known.delete(digest) || known
          @known.shift if @known.size >= MOST
          @known[digest] = known
        end
      end

      private

      def opened(source)
        address = Plock::ClientAddress.of(source) unless String === source
        url, options = address ? [address.url, address.options] : [source, {}]
        shared([url.to_s, options.sort]) { Plock::Store.open(url, **options) }
      end
    end
  end
end
