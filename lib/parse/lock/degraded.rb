# frozen_string_literal: true

require_relative "errors"
require_relative "process_mutexes"

module Parse
  module Lock
    # What happens where no store is configured that other processes see: the caller's choice of a
    # warning, and exclusion within this process.
    module Degraded
      # Seconds between two warnings of the mode `:warn_throttled`.
      THROTTLE = 60
      # How much of a key is printed.
      TAIL = 12

      private_constant :THROTTLE, :TAIL

      # @return [ProcessMutexes]
      MUTEXES = ProcessMutexes.new

      @lock = ::Mutex.new

      class << self
        # @param mode [Symbol] `:warn`, `:warn_throttled`, `:proceed` or `:raise`; any other is as
        #   good as `:warn`
        # @param key [String] as it would stand in a store
        # @param source [String] who asks
        # @param unavailable_error [Class, nil]
        # @return [void]
        # @raise [Parse::Error] with `:raise`: `unavailable_error`, or Parse::Error itself
        def announce(mode, key, source, unavailable_error)
          case mode
          when :raise
            raise unavailable_error || ::Parse::Error,
                  "#{source}: cross-process lock store unavailable; current store is process-local"
          when :proceed then nil
          when :warn_throttled
            warn "[#{source}] Lock store is process-local (Moneta Memory/Null). Cross-process locking is NOT in effect. " \
                 "Configure a Redis-backed cache to enable distributed locking." if due?
          else
            warn "[#{source}] Lock store is process-local; cross-process locking disabled. " \
                 "key_digest=#{key.is_a?(::String) ? key[-TAIL..] : key.inspect}"
          end
        end

        # @return [void]
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
