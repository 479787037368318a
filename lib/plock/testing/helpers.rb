# frozen_string_literal: true

require_relative "../../plock"

module Plock
  module Testing
    # Methods that simulate another holder, a lost lease or an unreachable server. {Assertions}
    # and `plock/testing/rspec` include them.
    #
    # Without a block, the effect of each method lasts until the test ends, since each test has a
    # store of its own. `store:` is a {MemoryStore}, by default the store of the test.
    module Helpers
      # Simulates another process that holds the key.
      #
      # @param key [String, Symbol]
      # @param label [String] the label of the other holder
      # @param store [MemoryStore]
      # @yield while the key is taken
      # @return [Object, MemoryStore::Taken] the block's value; without a block, an object that
      #   releases the key
      # @raise [ArgumentError] the key is held already
      #
      # @example
      #   pretend_taken("import", label: "web-2")
      #   assert_nil Plock.try_acquire("import")
      def pretend_taken(key, label: "another process", store: Testing.store)
        taken = store.take!(key, label: label)
        return taken unless block_given?

        begin
          yield
        ensure
          taken.release
        end
      end

      # Takes the key away from its holder, as if another process had broken the lock. `on_lost:`
      # has been called when this returns.
      #
      # @param key [String, Symbol]
      # @param store [MemoryStore]
      # @return [true]
      # @raise [ArgumentError] the key is not held
      def pretend_lost(key, store: Testing.store)
        store.lose!(key) || raise(ArgumentError, "#{key.inspect} cannot be lost: it is not held")
      end

      # Makes the store behave as if its server were unreachable: see {MemoryStore#down!}.
      #
      # @param store [MemoryStore]
      # @yield while the store is down
      # @return [Object, nil] the block's value
      #
      # @example
      #   pretend_down { assert_raises(Plock::UnavailableError) { Plock.acquire("import") } }
      def pretend_down(store: Testing.store)
        store.down!
        return unless block_given?

        begin
          yield
        ensure
          store.up!
        end
      end
    end
  end
end
