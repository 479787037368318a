# frozen_string_literal: true

module Plock
  module Testing
    # One key: who holds it, and those who wait, in order. Only under its world's mutex.
    #
    # It is held by one, or by several who share it in the same mode. Nobody is admitted past one
    # who waits before him.
    #
    # What time brings is caught up with, event by event, whenever the lock is looked at; whether
    # anybody looks in time is {#alarm_at}'s to say.
    #
    # @api private
    class MemoryLock
      attr_reader :key, :holders, :waiters

      def initialize(key, world)
        @key = key
        @world = world
        @holders = []
        @waiters = []
      end

      # @return [Boolean] is there nothing to remember?
      def idle?
        @holders.empty? && @waiters.empty?
      end

      # @return [Float, nil] when somebody is to hear of something, if nobody calls before
      def alarm_at
        renewal = @holders.filter_map(&:renew_at).min if Events.renewals
        expiry =
          @holders.filter_map { |grant| grant.expires_at if grant.watch || @waiters.any? }.min
        [renewal, expiry, first_deadline].compact.min
      end

      # @return [Float, nil] when anything changes by itself
      def next_event
        [
          @holders.filter_map(&:renew_at).min, @holders.map(&:expires_at).min, first_deadline
        ].compact.min
      end

      # Grants the key, refuses it, or lets the claim wait.
      #
      # @return [void]
      def ask(claim, now, wait)
        return hand_to(claim, now) if @waiters.empty? && room_for?(claim)
        return claim.answer unless wait.positive?

        claim.wait_until(now + wait, now)
        @waiters << claim
      end

      # Takes a waiter out. Those behind him may have waited for him only.
      #
      # @return [void]
      def leave(claim, now)
        admit(now) if @waiters.delete(claim)
      end

      # @param token [String]
      # @return [LeaseState, nil]
      def held_by(token)
        @holders.find { |grant| grant.token == token }
      end

      # The same lease, in other hands.
      #
      # @return [void]
      def replace(grant, other)
        @holders[@holders.index(grant)] = other
      end

      # Its holder gives it back.
      #
      # @return [void]
      def release(grant, now)
        grant.ended ||= :released
        vacate(grant, now)
      end

      # From now on its holder reads.
      #
      # @return [void]
      def downgrade(grant, now)
        grant.share = Locking::Share::READ
        admit(now)
      end

      # All who hold it have lost it.
      #
      # @return [void]
      def break(now)
        @holders.each { |grant| tell_of_loss(grant) }.clear
        admit(now)
      end

      # Nobody holds it, and nobody waits for it any more.
      #
      # @return [void]
      def clear
        @holders.each do |grant|
          grant.ended ||= :lost
          grant.forget
        end.clear
        @waiters.each(&:answer).clear
      end

      # Everything that was due until now: renewals, the end of a lease, the end of patience. They
      # happened when they were due, whenever they are seen; only a lease begins when it is given,
      # for nobody could have used it before.
      #
      # @return [void]
      def catch_up(now)
        while (due = next_event) && due <= now
          if (grant = @holders.find { |holder| holder.renew_at == due })
            renew(grant)
          elsif (grant = @holders.find { |holder| holder.expires_at == due })
            expire(grant, now)
          else
            give_up(due, now)
          end
        end
      end

      private

      def first_deadline
        @waiters.map(&:deadline).min
      end

      def room_for?(claim)
        return true if @holders.empty?
        return false unless (share = claim.share)

        @holders.first.share.mode == share.mode && (share.limit.nil? || @holders.size < share.limit)
      end

      def admit(now)
        hand_to(@waiters.shift, now) while @waiters.any? && room_for?(@waiters.first)
      end

      def hand_to(claim, now)
        @holders << claim.granted(@world.next_fence(now), now)
        claim.answer
      end

      def vacate(grant, now)
        admit(now) if @holders.delete(grant)
      end

      def expire(grant, now)
        tell_of_loss(grant)
        vacate(grant, now)
      end

      def tell_of_loss(grant)
        return if grant.ended

        grant.ended = :lost
        @world.notice([:lost, grant.id]) if grant.watch
      end

      def renew(grant)
        grant.renew_once
        @world.notice([:renewed, grant.id, 0.0]) if Events.renewals
      end

      def give_up(due, now)
        gone, @waiters = @waiters.partition { |claim| claim.deadline <= due }
        gone.each(&:answer)
        admit(now)
      end
    end
  end
end
