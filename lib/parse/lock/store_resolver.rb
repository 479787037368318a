# frozen_string_literal: true

require "plock"

module Parse
  module Lock
    # Finds the store for the object that the application has configured. Each acquire looks up its
    # store. So the results for the last few objects are kept by identity, and read without a mutex.
    #
    # All clients of one server share one store of plock. Stores are found by a digest of their
    # address and credentials.
    #
    # @api private
    module StoreResolver
      SOURCES = 16
      STORES = 64
      UNKNOWN = {}.compare_by_identity.freeze

      private_constant :SOURCES, :STORES, :UNKNOWN

      @lock = ::Mutex.new
      @resolved = UNKNOWN
      @stores = {}

      class << self
        # @return [Plock::Store, Plock::LocalStore, Object, nil] a store of plock; the source
        #   itself if it has the methods of one of the two protocols (see {Attempts}); or nil if
        #   the lock is degraded
        # @raise [Plock::ConfigurationError] an invalid URL
        # @raise [Plock::UnsupportedError] plock cannot connect as this client does
        # @raise [Plock::UnavailableError] the pool has no client to lend at the moment
        def resolve(source)
          known = @resolved[source]
          known = learn(source) if known.nil?
          known || nil
        end

        # Forgets the results. Stores stay open, because other threads may use them.
        def reset
          @lock.synchronize { @resolved = UNKNOWN }
        end

        private

        def learn(source)
          resolved = judge(source)
          @lock.synchronize do
            known = @resolved.dup # the copy also compares by identity
            known.delete(known.first.first) if known.size >= SOURCES
            known[source] = resolved
            @resolved = known.freeze
          end
          resolved
        end

        # @return [Object, false] false if the lock is degraded, because nil means unknown in
        #   `@resolved`
        def judge(source)
          case source
          when ::Plock::Store, ::Plock::LocalStore then return source
          when ::String # a store in memory is invisible to other processes
            return !source.start_with?("memory:") && store_at(source, {})
          end
          address = ::Plock::ClientAddress.of(source)
          return store_at(address.url, address.options) if address

          serves?(source) && !process_local?(source) && source
        end

        def store_at(url, options)
          digest = ::Plock.digest([url, options.sort].inspect)
          store = @lock.synchronize { @stores[digest] } || ::Plock::Store.open(url, **options)
          @lock.synchronize do
            # if two threads have opened the same store, both use the store registered first
            store = @stores.delete(digest) || store
            @stores.shift if @stores.size >= STORES
            @stores[digest] = store
          end
        end

        # The wrapper of a ConnectionPool is a BasicObject, which has no `respond_to?`.
        def serves?(source)
          return false unless ::Object === source

          answers?(source, :lock_acquire, :lock_release) ||
            answers?(source, :key?, :create, :[], :delete)
        end

        def answers?(source, *names)
          names.all? { |name| source.respond_to?(name) }
        end

        def process_local?(source)
          adapter = ::Plock::ClientAddress::MonetaChain.new(source).adapter
          adapter.class.name.to_s.match?(/Memory|Null/)
        end
      end
    end
  end
end
