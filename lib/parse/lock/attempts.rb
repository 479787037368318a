# frozen_string_literal: true

require "plock"
require_relative "errors"
require_relative "reports"
require_relative "store_resolver"

module Parse
  module Lock
    # Locks in a store that the application brought along, through one of the two protocols that
    # such stores answer to:
    #
    # * `lock_acquire(key, owner, ttl)` and `lock_release(key, owner)`, which plock's own stores
    #   have too;
    # * `key?(key)`, `create(key, value, expires:)`, `[key]` and `delete(key)`, as Moneta has them.
    #   There a release reads and then deletes, so a holder that is late by more than its TTL may
    #   hit another one's lock in between.
    #
    # Waiting for such a store means asking it again from time to time; that is done here and
    # nowhere else.
    module Attempts
      # Seconds between two questions, with {JITTER} up or down so that waiters do not march in
      # step.
      INTERVAL = 0.05
      JITTER = 0.015

      private_constant :INTERVAL, :JITTER

      class << self
        # Tries once.
        #
        # @param store [Object] as configured
        # @param key [String]
        # @param owner [String]
        # @param ttl [Integer] seconds
        # @return [Boolean, nil] nil: the store failed, which has been warned of, and nobody knows
        #   whether it took the lock
        def acquire(store, key, owner, ttl)
          target, = reach(:acquire, store) || (return false) # it was never asked
          guarded(:acquire) do
            if target.respond_to?(:lock_acquire)
              next target.lock_acquire(key, owner, ttl) ? true : false
            end

            # some adapters look for what has expired only when they are asked for it
            target.key?(key)
            target.create(key, owner, expires: ttl) ? true : false
          end
        end

        # Releases what is the owner's.
        #
        # @param store [Object] as configured
        # @param key [String]
        # @param owner [String]
        # @return [Boolean, nil] was it the owner's? nil: the store failed, which has been warned of
        def release(store, key, owner)
          target, = reach(:release, store) || return
          guarded(:release) do
            next target.lock_release(key, owner) ? true : false if target.respond_to?(:lock_release)
            next false unless target[key] == owner

            target.delete(key)
            true
          end
        end

        # Tries until the lock is there or patience ends, runs the block and releases on every way
        # out of it. An interrupt that comes during the release is raised after it, for a release
        # that was cut off would leave the lock until its TTL.
        #
        # @param store [Object] as configured
        # @param key [String]
        # @param owner [String] made for this call
        # @param ttl [Integer] seconds
        # @param patience [Numeric] seconds; 0 tries exactly once
        # @yieldparam asked_at [Float, nil] the clock before the successful question; nil: not
        #   acquired
        # @return [Object] the block's value
        def hold(store, key, owner, ttl, patience)
          deadline = now + patience
          asked_at = now
          pid = ::Process.pid
          doubt = true # from the moment a question leaves until the store has said no
          failed = false
          # In a child that was forked in the block, the lock is still the parent's.
          ::Plock::Interrupts.finally(-> { release(store, key, owner) if doubt && pid == ::Process.pid }) do
            until (answer = acquire(store, key, owner, ttl))
              # A question that failed may have been heard, and then what refuses us now is our own
              # lock.
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

        # @return [Float] seconds until a waiter asks again
        def interval
          INTERVAL + ((rand * 2) - 1) * JITTER
        end

        private

        def reach(action, store)
          guarded(action) { [StoreResolver.resolve(store) || store] }
        end

        # The one broad rescue: the application's store may raise what it likes, and whatever it is,
        # it must neither enter the block of the caller nor leave it.
        def guarded(action)
          yield
        rescue ::StandardError => e
          Reports.failure(action, e)
          nil
        end

        def now
          ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
        end
      end
    end
  end
end
