# frozen_string_literal: true

require "plock"
require_relative "errors"
require_relative "reports"
require_relative "store_resolver"

module Parse
  module Lock
    # Locks in an application's own store, through one of two protocols:
    #
    # * `lock_acquire(key, owner, ttl)` and `lock_release(key, owner)`, which plock's own stores
    #   also have;
    # * `key?(key)`, `create(key, value, expires:)`, `[key]` and `delete(key)`, as in Moneta. A
    #   release reads and then deletes, so a holder whose lock has expired may delete the lock of
    #   the next holder.
    #
    # A waiter for a lock in such a store polls.
    #
    # @api private
    module Attempts
      # Seconds between two tries, plus or minus {JITTER}. The jitter keeps waiters from trying at
      # the same time.
      INTERVAL = 0.05
      JITTER = 0.015

      private_constant :INTERVAL, :JITTER

      class << self
        # Tries once.
        #
        # @param store [Object] the configured store
        # @param ttl [Integer] seconds
        # @return [Boolean, nil] nil if the store failed, which causes a warning. The store may
        #   still have granted the lock.
        def acquire(store, key, owner, ttl)
          target, = reach(:acquire, store) || (return false) # no request was sent
          guarded(:acquire) do
            if target.respond_to?(:lock_acquire)
              next target.lock_acquire(key, owner, ttl) ? true : false
            end

            # some adapters remove an expired key only when it is read
            target.key?(key)
            target.create(key, owner, expires: ttl) ? true : false
          end
        end

        # Releases the lock if the owner holds it.
        #
        # @param store [Object] the configured store
        # @return [Boolean, nil] whether the owner held it; nil if the store failed, which causes
        #   a warning
        def release(store, key, owner)
          target, = reach(:release, store) || return
          guarded(:release) do
            next target.lock_release(key, owner) ? true : false if target.respond_to?(:lock_release)
            next false unless target[key] == owner

            target.delete(key)
            true
          end
        end

        # Tries until the lock is acquired or the time to wait is over, runs the block, and
        # releases the lock however the block ends. An interrupt during the release is raised
        # afterwards, because an interrupted release would leave the lock in the store until its
        # TTL ends.
        #
        # @param store [Object] the configured store
        # @param owner [String] unique for this call
        # @param ttl [Integer] seconds
        # @param patience [Numeric] seconds to wait; 0 makes exactly one try
        # @yieldparam asked_at [Float, nil] the monotonic time just before the successful try; nil
        #   if the lock was not acquired
        # @return [Object] the block's value
        def hold(store, key, owner, ttl, patience)
          deadline = now + patience
          asked_at = now
          pid = ::Process.pid
          doubt = true # true from the start of a request until the store refuses it
          failed = false
          # A child that is forked in the block does not release the lock of its parent.
          leave = -> { release(store, key, owner) if doubt && pid == ::Process.pid }
          ::Plock::Interrupts.finally(leave) do
            until (answer = acquire(store, key, owner, ttl))
              # If the previous request failed, the store may still have granted the lock. This
              # refusal is then due to our own lock. So the next line releases it, and the next try
              # can succeed.
              release(store, key, owner) if failed && answer == false
              doubt = failed = answer.nil?
              left = deadline - now
              return yield(nil) if left <= 0

              sleep([interval, left].min)
              doubt = true
              asked_at = now
            end
            yield asked_at
          end
        end

        def interval = INTERVAL + ((rand * 2) - 1) * JITTER

        private

        def reach(action, store) = guarded(action) { [StoreResolver.resolve(store) || store] }

        # Rescues every StandardError, because an application's store may raise any error, and none
        # may reach the caller.
        def guarded(action)
          yield
        rescue ::StandardError => e
          Reports.failure(action, e)
          nil
        end

        def now = ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
      end
    end
  end
end
