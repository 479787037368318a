# frozen_string_literal: true

require_relative "errors"
require_relative "process_mutexes"
require_relative "reports"

module Parse
  module Lock
    # Handles a store that no other process sees. Warns or raises, as the caller chooses, and
    # excludes callers within this process.
    #
    # @api private
    module Degraded
      # The fewest seconds between two warnings in `:warn_throttled` mode.
      THROTTLE = 60
      # The unthrottled warning shows this many characters from the end of the key.
      TAIL = 12

      private_constant :THROTTLE, :TAIL

      MUTEXES = ProcessMutexes.new

      @lock = ::Mutex.new

      class << self
        # See {LockBackend.handle_degraded}.
        def announce(mode, key, source, unavailable_error)
          case mode
          when :raise
            raise unavailable_error || ::Parse::Error,
                  "#{source}: cross-process lock store unavailable; current store is process-local"
          when :proceed then nil
          when :warn_throttled
            return unless due?

            Reports.say(
              "[#{source}] Lock store is process-local (Moneta Memory/Null). Cross-process " \
              "locking is NOT in effect. Configure a Redis-backed cache to enable distributed " \
              "locking."
            )
          else
            Reports.say(
              "[#{source}] Lock store is process-local; cross-process locking disabled. " \
              "key_digest=#{key.is_a?(::String) ? key[-TAIL..] : key.inspect}"
            )
          end
        end

        def reset
          @lock.synchronize { @warned_at = nil }
          MUTEXES.clear
        end

        private

        def due?
          now = ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
          @lock.synchronize do
            return false if @warned_at && now - @warned_at < THROTTLE

            @warned_at = now
          end
          true
        end
      end
    end
  end
end
