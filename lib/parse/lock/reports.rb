# frozen_string_literal: true

module Parse
  module Lock
    # What is said on the standard error stream, rather than raised, while a lock is acquired, held
    # or released.
    module Reports
      class << self
        # The engine's events, as {Plock::Store#hold_digest} tells them.
        #
        # @param event [Symbol] `:acquire` or `:release` with an error, `:overrun` with key, seconds
        #   held and ttl
        # @return [void]
        def call(event, *details)
          event == :overrun ? overrun(*details) : failure(event, *details)
        end

        # The store failed.
        #
        # @param action [Symbol] `:acquire` or `:release`
        # @param error [Exception]
        # @return [void]
        def failure(action, error)
          warn "[Parse::LockBackend] #{action} error (#{error.class}): #{error.message}"
        end

        # The block took longer than the lock lasted.
        #
        # @param key [String] as the caller named it
        # @param held [Float] seconds
        # @param ttl [Numeric] seconds
        # @return [void]
        def overrun(key, held, ttl)
          warn "[Parse::Lock] critical section for #{key.inspect} ran #{held.round(2)}s, exceeding ttl: #{ttl.to_i}s. " \
               "The lock freed itself before the block ended. Mutual exclusion was NOT guaranteed: another caller " \
               "may have run at the same time. Raise ttl: above the longest run, or make the block harmless when " \
               "it runs twice."
        end
      end
    end
  end
end
