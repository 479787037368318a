# frozen_string_literal: true

module Plock
  # For the tests of applications: locks in memory, with a clock that tests can move.
  #
  # `plock/testing/minitest` and `plock/testing/rspec` install a store for each test, and bring
  # assertions and matchers. {Helpers} has what tests can pretend.
  #
  # @example Any other framework
  #   around { |test| Plock::Testing.install { test.run } }
  # @example One's own handling of a loss
  #   Plock::Testing.install do |store|
  #     Plock.acquire("import", on_lost: ->(_) { stopped = true }) { store.lose!("import") }
  #   end
  module Testing
    autoload :Helpers, File.expand_path("testing/helpers", __dir__)
    autoload :MemoryStore, File.expand_path("store/memory", __dir__)

    @tests = 0 # that run now
    @lock = Mutex.new

    class << self
      # Makes a fresh store in memory the default store: while the block runs, or without a block
      # until {uninstall}. It has the `ttl`, `wait`, `namespace`, `secret` and `logger` of the
      # configured store, which it does not open. First it empties the stores that this process has
      # in `memory:` and `memory:NAME`, so that no test finds the locks of another. An install
      # within the block of another does not empty them.
      #
      # @yieldparam store [MemoryStore]
      # @return [Object, MemoryStore] the block's value; without a block the store
      # @raise [ConfigurationError] one of these settings is invalid
      def install
        store = MemoryStore.new("", Plock.store_config)
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
      # @raise [UnsupportedError] it is no store in memory
      def store
        store = Plock.store
        return store if store.is_a?(MemoryStore)

        raise UnsupportedError,
              "the default store is #{store.url}: call Plock::Testing.install first"
      end

      # A test begins. Tests that run in threads share the store that the first of them gets.
      #
      # @api private
      # @return [void]
      def begin_test
        @lock.synchronize do
          install if @tests.zero?
          @tests += 1
        end
      end

      # A test has ended.
      #
      # @api private
      # @return [void]
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
