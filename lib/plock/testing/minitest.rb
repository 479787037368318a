# frozen_string_literal: true

require_relative "acquisitions"
require_relative "helpers"

module Plock
  module Testing
    # For Minitest, and so for the tests of Rails: a store in memory for each test, assertions, and
    # {Helpers}. `require "plock/testing/minitest"` loads it.
    #
    # @example test/test_helper.rb
    #   require "plock/testing/minitest"
    #
    #   class ActiveSupport::TestCase
    #     include Plock::Testing::Assertions
    #   end
    # @example
    #   test "imports are exclusive" do
    #     assert_acquires("import") { Import.run }
    #     refute_locked("import")
    #   end
    module Assertions
      include Helpers

      # Called by Minitest.
      def before_setup
        Testing.begin_test
        @plock_began = true # not set if an earlier hook has failed
        super
      end

      # Called by Minitest.
      def after_teardown
        super
      ensure
        Testing.end_test if @plock_began
      end

      # @param key [String, Symbol]
      # @param message [String, nil]
      # @param store [Locking]
      # @return [true]
      def assert_locked(key, message = nil, store: Plock.store)
        assert(store.status(key).held?, message(message) { "Expected #{mu_pp(key)} to be locked" })
      end

      # @param key [String, Symbol]
      # @param message [String, nil]
      # @param store [Locking]
      # @return [false]
      def refute_locked(key, message = nil, store: Plock.store)
        status = store.status(key)
        told = message(message) { "Expected #{mu_pp(key)} not to be locked: #{status}" }
        refute(status.held?, told)
      end

      # Asserts that all these keys are acquired while the block runs. The block may release
      # them again.
      #
      # @param keys [Array<String, Symbol>] without keys, any key counts
      # @param message [String, nil]
      # @yield
      # @return [true]
      def assert_acquires(*keys, message: nil, &block)
        seen = Acquisitions.during(&block)
        told = message(message) { "Expected the block to acquire #{seen.named(keys)}, but #{seen}" }
        assert(seen.all?(keys), told)
      end

      # Asserts that none of these keys is acquired while the block runs.
      #
      # @param keys [Array<String, Symbol>] without keys, no key may be acquired
      # @param message [String, nil]
      # @yield
      # @return [true]
      def refute_acquires(*keys, message: nil, &block)
        seen = Acquisitions.during(&block)
        told =
          message(message) { "Expected the block not to acquire #{seen.named(keys)}, but #{seen}" }
        assert(seen.none?(keys), told)
      end
    end
  end
end
