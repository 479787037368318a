# frozen_string_literal: true

class RemoteLock
  # From what an adapter is given to what locks are made in. Clients of one server share it, for an
  # adapter may be made for every lock.
  #
  # @api private
  module Stores
    MOST = 64
    private_constant :MOST

    @lock = Mutex.new
    @known = {}

    class << self
      # @param source [Object] a client of Redis, or a pool of such, a URL, or a store
      # @raise [ArgumentError] a store that is not one of Redis
      # @raise [Plock::UnavailableError] a pool that has nobody to ask at the moment
      def redis(source)
        return source if Plock::Store === source

        address = Plock::ClientAddress.of(source) unless String === source ||
                                                         Plock::Locking === source
        url, options = address ? [address.url, address.options] : [source, {}]
        store =
          (
            if Plock::Locking === source
              source
            else
              shared([url.to_s, options.sort]) { Plock::Store.open(url, **options) }
            end
          )
        return store if Plock::Store === store

        raise ArgumentError, "#{store.url} is not in Redis: RemoteLock::Adapters::Store is for such"
      end

      # @param description [Object] may hold a password, of which nothing is kept
      def shared(description)
        digest = Plock.digest(description.inspect)
        known = @lock.synchronize { @known[digest] } || yield
        @lock.synchronize do
          # two threads may have opened it: then the second is not used
          known = @known.delete(digest) || known
          @known.shift if @known.size >= MOST
          @known[digest] = known
        end
      end
    end
  end
end
