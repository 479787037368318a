# frozen_string_literal: true

module Plock
  module Testing
    # One lease as its {MemoryBackend} keeps it. Changed only under the world's mutex; times are the
    # world's.
    #
    # @api private
    class LeaseState
      # Of a ttl is left when it is renewed, two thirds.
      RENEWALS_PER_TTL = 3

      attr_reader :owner, :token, :fence, :acquired_at, :expires_at, :renew_at, :ttl, :watch

      # @return [Symbol, nil] nil: held; `:released`, `:lost`, `:given`
      attr_accessor :ended

      # @return [Locking::Share, nil]
      attr_accessor :share

      def initialize(
        owner, token, fence, ttl, now, share: nil, renew: false, max_hold: nil, watch: false,
        expires_at: now + ttl
      )
        @owner = owner
        @token = token
        @fence = fence
        @ttl = ttl
        @share = share
        @acquired_at = now
        @expires_at = expires_at
        @renew = renew
        @limit = max_hold && (now + max_hold)
        @watch = watch
        schedule(now)
      end

      # @return [Integer] by which the dispatcher knows it; negative, as those of the extension are
      #   not
      def id
        -object_id
      end

      # @return [void]
      def extend_to(now, ttl)
        @ttl = ttl
        @expires_at = now + ttl
        schedule(now)
      end

      # @return [void]
      def renew_once
        now = @renew_at
        @expires_at = [@expires_at, [now + @ttl, @limit].compact.min].max
        schedule(now)
      end

      # It is over; its key stays taken until then.
      #
      # @return [void]
      def keep_until(time)
        @ended = :released
        @expires_at = time
        forget
      end

      # Whoever has it next sees to it.
      #
      # @return [void]
      def forget
        @renew_at = nil
        @watch = false
      end

      private

      def schedule(now)
        due = now + @ttl / RENEWALS_PER_TTL
        @renew_at = (due if @renew && (@limit.nil? || due < @limit))
      end
    end
  end
end
