# frozen_string_literal: true

module Plock
  module Testing
    # One key: its holder, and those who wait, in order. Only under its world's mutex.
    #
    # What time brings is caught up with, event by event, whenever the lock is looked at; whether anybody looks in time is
    # {#alarm_at}'s to say.
    #
    # @api private
    class MemoryLock
      attr_reader :key, :holder, :waiters

      def initialize(key, world)
        @key = key
        @world = world
        @waiters = []
        @holder = nil
      end

      # @return [Boolean] is there nothing to remember?
      def idle?
        @holder.nil? && @waiters.empty?
      end

      # @return [Float, nil] when somebody is to hear of something, if nobody calls before
      def alarm_at
        renewal = @holder&.renew_at if Events.renewals
        expiry = @holder&.expires_at if @holder&.watch || @waiters.any?
        [renewal, expiry, first_deadline].compact.min
      end

      # @return [Float, nil] when anything changes by itself
      def next_event
        [@holder&.renew_at, @holder&.expires_at, first_deadline].compact.min
      end

      # Grants the key, refuses it, or lets the claim wait.
      #
      # @return [void]
      def ask(claim, now, wait)
        catch_up(now)
        return hand_to(claim, now) if idle?
        return claim.answer unless wait.positive?

        claim.wait_until(now + wait, now)
        @waiters << claim
      end

      # Takes a waiter out.
      #
      # @return [void]
      def leave(claim)
        @waiters.delete(claim)
      end

      # The same lease, in other hands.
      #
      # @return [void]
      def take_over(grant)
        @holder = grant
      end

      # Nobody holds it any more: the first in line does.
      #
      # @return [void]
      def vacate(now)
        @holder = nil
        hand_to(@waiters.shift, now) if @waiters.any?
      end

      # The holder has lost it.
      #
      # @return [void]
      def lose(now)
        lost = @holder
        if lost.ended.nil?
          lost.ended = :lost
          @world.notice([:lost, lost.id]) if lost.watch
        end
        vacate(now)
      end

      # Everything that was due until now: renewals, the end of the lease, the end of patience. They happened when they were due,
      # whenever they are seen; only a lease begins when it is given, for nobody could have used it before.
      #
      # @return [void]
      def catch_up(now)
        while (due = next_event) && due <= now
          if @holder&.renew_at == due then renew
          elsif @holder&.expires_at == due then lose(now)
          else give_up(due)
          end
        end
      end

      private

      def first_deadline
        @waiters.map(&:deadline).min
      end

      def hand_to(claim, now)
        @holder = claim.granted(@world.next_fence(now), now)
        claim.answer
      end

      def renew
        @holder.renew_once
        @world.notice([:renewed, @holder.id, 0.0]) if Events.renewals
      end

      def give_up(due)
        gone, @waiters = @waiters.partition { |claim| claim.deadline <= due }
        gone.each(&:answer)
      end
    end
  end
end
