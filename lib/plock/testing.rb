# frozen_string_literal: true

module Plock
  # For the tests of applications: locks in memory, with a clock that tests can move.
  #
  # `plock/testing/minitest` and `plock/testing/rspec` install a store for each test, and add
  # assertions and matchers. With {Helpers}, a test can simulate another holder, a lost lease or
  # an unreachable server.
  #
  # @example Any other framework
  #   around { |test| Plock::Testing.install { test.run } }
  # @example Your own handling of a loss
  #   Plock::Testing.install do |store|
  #     Plock.acquire("import", on_lost: ->(_) { stopped = true }) { store.lose!("import") }
  #   end
  module Testing
    autoload :Helpers, File.expand_path("testing/helpers", __dir__)
    autoload :MemoryStore, File.expand_path("store/memory", __dir__)

    @tests = 0 # how many tests are running
    @lock = Mutex.new

    class << self
      # Makes a new store in memory the default store. With a block, it stays the default until
      # the block ends; without a block, until {uninstall}. It copies `ttl`, `wait`, `namespace`,
      # `secret` and `logger` from the configured store, but does not open that store.
      #
      # Before that, it empties this process's stores at `memory:` and `memory:NAME`, so that no
      # test sees the locks of another test. An install inside the block of another install
      # empties nothing.
      #
      # @yieldparam store [MemoryStore]
      # @return [Object, MemoryStore] the block's value; without a block, the store
      # @raise [ConfigurationError] one of these settings is invalid
      def install
        store = MemoryStore.new("", Plock.configuration.store_config)
        MemoryBackend.clear_all unless @inside
        before = Plock.replace_store(store)
        return store unless block_given?

        begin
          outer, @inside = @inside, true
          yield store
        ensure
          @inside = outer
          Plock.replace_store(before)
        end
      end

      # @return [MemoryStore] the default store
      # @raise [UnsupportedError] the default store is not in memory
      def store
        store = Plock.store
        return store if store.is_a?(MemoryStore)

        raise UnsupportedError,
              "the default store is #{store.url}: call Plock::Testing.install first"
      end

      # Call this when a test begins. Tests that run in parallel threads share the store that the
      # first of them installs.
      #
      # @api private
      def begin_test
        @lock.synchronize do
          install if @tests.zero?
          @tests += 1
        end
      end

      # Call this when a test has ended.
      #
      # @api private
      def end_test
        @lock.synchronize do
          @tests -= 1
          uninstall if @tests.zero?
        end
      end

      # Makes the configured store the default store again.
      #
      # @return [nil]
      def uninstall
        Plock.replace_store(nil)
        nil
      end
    end
  end
end
