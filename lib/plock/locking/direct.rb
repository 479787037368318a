# frozen_string_literal: true

require_relative "acquire_options"
require_relative "own_holds"

module Plock
  module Locking
    # For the stores of the engine. A call with a block and no options beyond `ttl:` and `wait:`
    # goes through C, from its arguments to the release (binding_direct.c). All others, and those
    # before the store's secret is known to agree, go through {Acquisition}.
    #
    # @api private
    module Direct
      # @see Identity
      def profile=(profile)
        super
        @plain &&= profile.plain_calls
      end

      # @see Locking#acquire
      def acquire(
        key, ttl: USUAL, wait: USUAL, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
        label: nil, &block
      )
        if block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) && on_lost.nil? &&
           label.nil? && @plain
          value = acquire_directly(@plain, key, nil, nil, ttl, wait, false, true, &block)
          return value unless PlainCalls::UNDONE.equal?(value)
        end
        super
      end

      # @see Locking#try_acquire
      def try_acquire(
        key, ttl: USUAL, wait: 0, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
        label: nil, &block
      )
        if block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) && on_lost.nil? &&
           label.nil? && @plain
          value = acquire_directly(@plain, key, nil, nil, ttl, wait, false, false, &block)
          return value unless PlainCalls::UNDONE.equal?(value)
        end
        super
      end

      # Acquires for a block of a {SharedLock} or {Monitor}.
      #
      # @param key [String, Symbol]
      # @param store_key [String, nil] nil: that of the key's lock
      # @param share [Share, nil]
      # @param ttl [Numeric, Object] may be USUAL
      # @param wait [Numeric, Object] may be USUAL
      # @param renews [Boolean] even with a `ttl`?
      # @param raises [Boolean] a {TimeoutError}, instead of nil?
      # @yieldparam lease [Lease]
      # @return [Object] the block's value, nil, or PlainCalls::UNDONE
      def with_lease(key, store_key, share, ttl, wait, renews, raises, &block)
        return PlainCalls::UNDONE unless @plain

        acquire_directly(@plain, key, store_key, share, ttl, wait, renews, raises, &block)
      end

      private

      def agreed
        super
        @plain = profile.plain_calls
      end
    end
  end
end
