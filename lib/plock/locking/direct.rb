# frozen_string_literal: true

require_relative "acquire_options"
require_relative "own_holds"

module Plock
  module Locking
    # The short way to acquire in the engine's stores. A call with a block and no options but
    # `ttl:` and `wait:` runs in C, from its arguments to the release (binding_direct.c,
    # binding_group.c). {Acquisition} and {GroupAcquisition} handle all other calls. They also
    # handle every call until the store has found that its secret agrees with that of the other
    # processes.
    #
    # @api private
    module Direct
      # @see Identity
      def config=(config)
        super
        @plain &&= config.plain_calls(self)
      end

      # @see Locking#acquire
      def acquire(
        key, ttl: USUAL, wait: USUAL, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
        label: nil, release: nil, replicas: nil, &block
      )
        if block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) && on_lost.nil? &&
           label.nil? && release.nil? && replicas.nil? && @plain
          value = acquire_directly(@plain, key, nil, nil, ttl, wait, false, true, &block)
          return value unless PlainCalls::UNDONE.equal?(value)
        end
        super
      end

      # @see Locking#try_acquire
      def try_acquire(
        key, ttl: USUAL, wait: 0, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
        label: nil, release: nil, replicas: nil, &block
      )
        if block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) && on_lost.nil? &&
           label.nil? && release.nil? && replicas.nil? && @plain
          value = acquire_directly(@plain, key, nil, nil, ttl, wait, false, false, &block)
          return value unless PlainCalls::UNDONE.equal?(value)
        end
        super
      end

      # @see Locking#acquire_all
      def acquire_all(
        keys, ttl: USUAL, wait: USUAL, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
        label: nil, replicas: nil, &block
      )
        if block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) && on_lost.nil? &&
           label.nil? && replicas.nil? && @plain
          value = acquire_all_directly(@plain, keys, ttl, wait, true, &block)
          return value unless PlainCalls::UNDONE.equal?(value)
        end
        super
      end

      # @see Locking#try_acquire_all
      def try_acquire_all(
        keys, ttl: USUAL, wait: 0, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
        label: nil, replicas: nil, &block
      )
        if block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) && on_lost.nil? &&
           label.nil? && replicas.nil? && @plain
          value = acquire_all_directly(@plain, keys, ttl, wait, false, &block)
          return value unless PlainCalls::UNDONE.equal?(value)
        end
        super
      end

      # @api private
      # Continues in Ruby a call for several keys whose first attempt, in C, did not acquire all
      # of them.
      #
      # @param keys [Array<String, Symbol>]
      # @param ttl [Numeric, Object] may be USUAL
      # @param wait [Numeric, Object] may be USUAL
      # @param raises [Boolean] does a timeout raise {TimeoutError} instead of returning nil?
      # @param first [GroupAcquisition::Attempt]
      # @return [Object, nil] the block's value; nil: others held a key until `wait` ended
      def go_on_asking(keys, ttl, wait, raises, first, &block)
        options = options_for(block, ttl: ttl, wait: wait)
        return trying_all(keys, options, block, first) unless raises

        waiting_for_all(keys, options, block, first)
      end

      # Acquires for a block of a {SharedLock} or {Monitor}.
      #
      # @param key [String, Symbol]
      # @param store_key [String, nil] nil: the store key of a plain lock on the key
      # @param share [Share, nil]
      # @param ttl [Numeric, Object] may be USUAL
      # @param wait [Numeric, Object] may be USUAL
      # @param renews [Boolean] is the lease renewed even if there is a `ttl`?
      # @param raises [Boolean] does a timeout raise {TimeoutError} instead of returning nil?
      # @yieldparam lease [Lease]
      # @return [Object, nil] the block's value; nil: another holder kept the key until `wait`
      #   ended; PlainCalls::UNDONE: nothing was done, so the caller must use {Acquisition}
      def with_lease(key, store_key, share, ttl, wait, renews, raises, &block)
        return PlainCalls::UNDONE unless @plain

        acquire_directly(@plain, key, store_key, share, ttl, wait, renews, raises, &block)
      end

      private

      # Ends the leases of one block if the binding could not release all of them, or if one of
      # them was lost.
      #
      # @param leases [Array<Lease>]
      # @param ttl [Numeric, Object] as the caller passed it; may be USUAL
      # @param answer [Array<Boolean, nil>, Error, nil] as {LeaseGroup#end_of_block} takes it
      def end_group(leases, ttl, answer)
        options = options_for(nil, ttl: ttl, renew: false)
        options.used = true
        LeaseGroup
          .new(leases.to_h { |lease| [lease.key.to_s, lease] }, options, self)
          .end_of_block(answer)
      end

      def agreed
        super
        @plain = config.plain_calls(self)
      end
    end
  end
end
