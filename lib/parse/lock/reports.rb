# frozen_string_literal: true

module Parse
  module Lock
    # Warnings on the standard error stream, for failures that must not be raised.
    #
    # @api private
    module Reports
      class << self
        # Handles an event of {Plock::Store#hold_digest}.
        #
        # @param event [Symbol] `:acquire` or `:release`, with an error; `:overrun`, with the key,
        #   the seconds held and the TTL
        def call(event, *details) = event == :overrun ? overrun(*details) : failure(event, *details)

        def failure(action, error)
          say "[Parse::LockBackend] #{action} error (#{error.class}): #{error.message}"
        end

        # Warns that the block took longer than the lock lasted.
        def overrun(key, held, ttl)
          say "[Parse::Lock] critical section for #{key.inspect} ran #{held.round(2)}s, " \
              "exceeding ttl: #{ttl.to_i}s. The lock freed itself before the block ended. " \
              "Mutual exclusion was NOT guaranteed: another caller may have run at the same " \
              "time. Raise ttl: above the longest run, or make the block harmless when it runs " \
              "twice."
        end

        # Writes a warning. The stream may be closed, or may be a pipe that no process reads any
        # more. Such a failure must not affect the lock.
        def say(text)
          warn(text)
        rescue ::SystemCallError, ::IOError
          nil # there is no other place to report it
        end
      end
    end
  end
end
