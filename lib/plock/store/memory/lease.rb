# frozen_string_literal: true

require "etc" # for Record.own
require_relative "../../record"

module Plock
  module Testing
    # A request for a key in a {MemoryBackend}, and then the lease that it is granted. It changes
    # only under the backend's mutex, and its times are on the backend's clock. A
    # {Store::StateHold} delegates to it.
    #
    # @api private
    class MemoryLease
      # A lease is renewed after a third of its ttl.
      RENEWALS_PER_TTL = 3

      attr_reader :key, :token, :ttl, :share, :owner, :fence, :granted_at, :expires_at, :renew_at,
                  :watch

      # @return [Float, nil] since when it waits, and until when; nil: it has never waited
      attr_reader :since, :deadline

      # @return [Symbol, nil] nil: not ended; `:released`, `:lost`, or `:given` if it was handed
      #   over
      attr_reader :ended

      # @param share [Locking::Share, nil] nil: it excludes all others
      def initialize(
        backend, key, ttl, token: Plock.token, label: nil, share: nil, renew: false, max_hold: nil,
        watch: false
      )
        @backend = backend
        @key = key
        @ttl = ttl
        @token = token
        @share = share
        @renew = renew
        @max_hold = max_hold
        @watch = watch
        @owner = Record.own(label)
        @answer = Thread::Queue.new
      end

      def wait_until(deadline, now)
        @deadline = deadline
        @since = now
      end

      # @return [Boolean] was the key held, or another request before this one?
      def contended? = !@since.nil?

      def answer = @answer << true

      # Waits for the answer, as a thread or as a fiber.
      def await = @answer.pop

      def grant(fence, now, expires_at = now + @ttl)
        @fence = fence
        @granted_at = now
        @limit = @max_hold && (now + @max_hold)
        date(now, expires_at)
      end

      def granted? = !@fence.nil?

      def renew_once
        now = @renew_at
        date(now, [@expires_at, [now + @ttl, @limit].compact.min].max)
      end

      # The first reason counts.
      def finish(reason) = @ended ||= reason

      # From now on it is neither renewed nor reported as lost.
      def forget
        @renew_at = nil
        @watch = false
      end

      # @return [Integer] the dispatcher's name for it; negative, unlike those of the extension
      def id = -object_id

      # @return [Float] on {Clock}
      def acquired_at = @backend.real(@granted_at)

      # @return [Float] on {Clock}
      def valid_until = look { @backend.real(@expires_at) }

      def inherited? = @owner[:pid] != Process.pid

      def valid? = look { @ended.nil? && !inherited? }

      def lost? = look { @ended == :lost && !inherited? }

      # @return [Boolean, nil] was it ours? nil: it was released or handed over before. The methods
      #   below return the same.
      def extend(ttl)
        mine do |_lock, now|
          @ttl = ttl
          date(now, now + ttl)
        end
      end

      # @param keep [Float] seconds that the key stays taken
      def release(keep)
        mine do |lock, now|
          finish(:released)
          next lock.vacate(self, now) unless keep.positive?

          @expires_at = now + keep
          forget
        end
      end

      def downgrade
        mine do |lock, now|
          @share = Locking::Share::READ
          lock.admit(now)
        end
      end

      # Hands the lease over: another owner adopts it, or it expires.
      def leave
        mine do
          finish(:given)
          forget
        end
      end

      private

      def date(now, expires_at)
        @expires_at = expires_at
        due = now + (@ttl / RENEWALS_PER_TTL)
        @renew_at = (due if @renew && (@limit.nil? || due < @limit))
      end

      # Carries out all that is due, and then runs the block.
      def look(&block) = @backend.with(@key, &block)

      # Runs the block if the lease is held by this process.
      def mine
        look do |lock, now|
          held = @ended.nil? && !inherited? && lock.holders.include?(self)
          next (@ended == :lost ? false : nil) unless held

          yield lock, now
          true
        end
      end
    end
  end
end
