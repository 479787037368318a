# frozen_string_literal: true

require "plock"

module Parse
  module Lock
    # From what the application has configured to what locks are made in. Called for every lock, so
    # what an object resolves to is remembered for the last few of them, by identity, and read
    # without a mutex.
    #
    # Clients of one server share one store of plock's, whatever their number: stores are kept by a
    # digest of address and credentials.
    module StoreResolver
      SOURCES = 16
      STORES = 64
      UNKNOWN = {}.compare_by_identity.freeze

      private_constant :SOURCES, :STORES, :UNKNOWN

      @lock = ::Mutex.new
      @resolved = UNKNOWN
      @stores = {}

      class << self
        # @param source [Object, nil]
        # @return [Plock::Store, Plock::LocalStore, Object, nil] plock's own store; or the source
        #   itself, which knows how to lock or how to create; or nil: degraded
        # @raise [Plock::ConfigurationError] a URL that cannot be right
        # @raise [Plock::UnsupportedError] a client that plock cannot stand in for
        # @raise [Plock::UnavailableError] a pool that has no client to lend at the moment
        def resolve(source)
          known = @resolved[source]
          known = learn(source) if known.nil?
          known || nil
        end

        # Forgets which object resolved to what. Stores stay open: others may be at work in them.
        #
        # @return [void]
        def reset
          @lock.synchronize { @resolved = UNKNOWN }
        end

        private

        def learn(source)
          resolved = judge(source)
          @lock.synchronize do
            known = @resolved.dup # keeps comparing by identity
            known.delete(known.first.first) if known.size >= SOURCES
            known[source] = resolved
            @resolved = known.freeze
          end
          resolved
        end

        # False stands for degraded, because nil stands for not known.
        def judge(source)
          case source
          when ::Plock::Store, ::Plock::LocalStore then return source
          when ::String then return !process_memory?(source) && store_at(source, {})
          end
          address = ::Plock::ClientAddress.of(source)
          return store_at(address.url, address.options) if address

          serves?(source) && !process_local?(source) && source
        end

        # No lock among processes, as little as any other store in memory.
        def process_memory?(url) = url.start_with?("memory:")

        def store_at(url, options)
          digest = ::Plock.digest([url, options.sort].inspect)
          store = @lock.synchronize { @stores[digest] } || ::Plock::Store.open(url, **options)
          @lock.synchronize do
            # two threads may have opened it: then the second is not used
            store = @stores.delete(digest) || store
            @stores.shift if @stores.size >= STORES
            @stores[digest] = store
          end
        end

        # A pool's wrapper of something else is a BasicObject, and cannot be asked.
        def serves?(source)
          return false unless ::Object === source

          answers?(source, :lock_acquire, :lock_release) ||
            answers?(source, :key?, :create, :[], :delete)
        end

        def answers?(source, *names)
          names.all? { |name| source.respond_to?(name) }
        end

        def process_local?(source)
          ::Plock::ClientAddress::MonetaChain
            .new(source)
            .adapter
            .class
            .name
            .to_s
            .match?(/Memory|Null/)
        end
      end
    end
  end
end
