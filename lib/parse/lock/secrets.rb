# frozen_string_literal: true

require_relative "application"
require_relative "reports"
require "securerandom"

module Parse
  module Lock
    # The secret that hashes keys if a call does not pass its own.
    #
    # @api private
    module Secrets
      VARIABLE = "PARSE_STACK_LOCK_SECRET"

      private_constant :VARIABLE

      @lock = ::Mutex.new

      class << self
        # @param source [String] the caller's name, for the warning
        # @yieldreturn [Boolean] whether only this process sees the store. The block is called
        #   only if no secret is configured.
        # @return [String, nil] nil if keys are hashed without a secret
        def for(source)
          secret = configured
          return secret if secret && !secret.empty?
          return generated if yield

          warn_once(source)
          nil
        end

        # @return [String, nil] the configured secret, which is read again at each call
        def configured
          secret = ::Parse.synchronize_create_secret
          secret ? secret.to_s : ::ENV[VARIABLE]
        end

        # @return [String] a random secret, which stays the same until {reset} or the end of the
        #   process
        def generated
          @generated || @lock.synchronize { @generated ||= ::SecureRandom.hex(32) }
        end

        def warn_once(source)
          return if @warned

          @lock.synchronize do
            return if @warned

            @warned = true
          end
          Reports.say(
            "[#{source}:SECURITY] No #{VARIABLE} configured and Redis-backed store detected. " \
            "Keys are hashed with plain SHA-256, so that processes agree on them. There are " \
            "two risks. (1) A client that can read this Redis can enumerate likely keys and " \
            "learn which resources are locked. (2) A client that can write to it can compute " \
            "a key, plant a lock there, and pin the resource until the TTL ends. To avoid " \
            "them, set #{VARIABLE} to the same secret in every process, or set " \
            "Parse.synchronize_create_secret to it. Or point Parse.synchronize_create_store " \
            "at a Redis database that no other application can write to."
          )
        end

        def reset
          @lock.synchronize { @generated = @warned = nil }
        end
      end
    end
  end
end
