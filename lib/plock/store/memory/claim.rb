# frozen_string_literal: true

module Plock
  module Testing
    # Somebody who asks for a key: the terms, and a place where the answer arrives.
    #
    # @api private
    class Claim
      attr_reader :key, :owner, :ttl, :share, :token, :options, :since

      # @return [Float, nil] when its patience ends; nil: it has not asked, or does not wait
      attr_reader :deadline

      # @return [LeaseState, nil]
      attr_reader :grant

      # @param share [Locking::Share, nil] nil: it wants the key for itself
      def initialize(key, owner, ttl, share: nil, token: Plock.token, **options)
        @key = key
        @owner = owner
        @ttl = ttl
        @share = share
        @token = token
        @options = options
        @answer = Thread::Queue.new
      end

      # @return [LeaseState]
      def granted(fence, now)
        @grant = LeaseState.new(owner, token, fence, ttl, now, share: share, **options)
      end

      # @return [void]
      def wait_until(deadline, now)
        @deadline = deadline
        @since = now
      end

      # @return [Boolean] was somebody else there before?
      def contended?
        !@since.nil?
      end

      # @return [void]
      def answer
        @answer << true
      end

      # Waits for the answer, as a thread or as a fiber.
      #
      # @return [void]
      def await
        @answer.pop
      end
    end
  end
end
