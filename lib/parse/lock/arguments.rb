# frozen_string_literal: true

module Parse
  module Lock
    # Checks and converts the arguments of {Parse::Lock.acquire}.
    #
    # @api private
    module Arguments
      KEY_MAX_BYTES = 1024
      MODES = %i[warn warn_throttled proceed raise].freeze

      private_constant :KEY_MAX_BYTES, :MODES

      class << self
        # @raise [ArgumentError] an invalid key, mode or secret
        def check(key, mode, secret)
          refuse_key(key) unless ::String === key && !key.empty? && key.bytesize <= KEY_MAX_BYTES
          case mode
          when :warn, :warn_throttled, :proceed, :raise then nil
          else refuse_mode(mode)
          end
          return if secret == :auto || secret.nil?

          refuse_secret(secret) unless ::String === secret && secret.bytesize >= SECRET_MIN_BYTES
        end

        # @return [Integer] seconds, from 1 to MAX_TTL
        # @raise [TypeError, ArgumentError, FloatDomainError] not a finite number
        def ttl(value)
          ttl = ::Integer === value ? value : Integer(value)
          return 1 if ttl < 1

          ttl > MAX_TTL ? MAX_TTL : ttl
        end

        # @return [Float, Integer] seconds, from 0.0 to MAX_WAIT
        # @raise [TypeError, ArgumentError] not a number
        def wait(value)
          wait = ::Float === value ? value : Float(value)
          if wait.nan?
            raise ::ArgumentError, "Parse::Lock.acquire: wait must be a number of seconds (got NaN)"
          end
          return 0.0 if wait <= 0.0

          wait > MAX_WAIT ? MAX_WAIT : wait
        end

        private

        def refuse_key(key)
          unless key.is_a?(::String) && !key.empty?
            raise ::ArgumentError,
                  "Parse::Lock.acquire: key must be a non-empty String (got #{key.class})"
          end

          raise ::ArgumentError,
                "Parse::Lock.acquire: key exceeds #{KEY_MAX_BYTES} bytes (got #{key.bytesize}). " \
                  "Use a digest of fixed length as the key, such as SHA-256 of its parts."
        end

        def refuse_mode(mode)
          raise ::ArgumentError,
                "Parse::Lock.acquire: on_degraded must be one of #{MODES.inspect} " \
                "(got #{mode.inspect}). An unknown mode is never treated as :warn: with a " \
                "misspelt :raise the block would run where the caller wants an error."
        end

        # The message does not show the value, which may be a secret.
        def refuse_secret(secret)
          unless secret.is_a?(::String) && !secret.empty?
            raise ::ArgumentError,
                  "Parse::Lock.acquire: secret must be :auto (the configured one), nil (none: " \
                  "plain SHA-256) or a non-empty String (used as it is); got #{secret.class}"
          end

          raise ::ArgumentError,
                "Parse::Lock.acquire: explicit `secret:` must be at least #{SECRET_MIN_BYTES} " \
                "bytes (got #{secret.bytesize}). A client of the same Redis can guess a shorter " \
                "one, compute the keys from it and pin them. SecureRandom.hex(32) makes a good one."
        end
      end
    end
  end
end
