# frozen_string_literal: true

module Plock
  module Testing
    # One key: its holders, and its waiters in order. The caller must hold the backend's mutex.
    #
    # The key has one holder, or several that share it in the same mode. No request is admitted
    # before an earlier one.
    #
    # Before any use of the lock, the backend calls {#catch_up}, which carries out all events that
    # have become due. {#alarm_at} says when the backend must call it even if no caller uses the
    # lock.
    #
    # @api private
    class MemoryLock
      attr_reader :key, :holders, :waiters

      def initialize(key, backend)
        @key = key
        @backend = backend
        @holders = []
        @waiters = []
      end

      def idle? = @holders.empty? && @waiters.empty?

      # @return [Float, nil] the time of the next event that a thread must learn of at once
      def alarm_at
        renewal = @holders.filter_map(&:renew_at).min if Events.renewals
        expiry =
          @holders.filter_map { |lease| lease.expires_at if lease.watch || @waiters.any? }.min
        [renewal, expiry, first_deadline].compact.min
      end

      # @return [Float, nil] the time of the next renewal, expiry or timeout of a waiter
      def next_event
        [
          @holders.filter_map(&:renew_at).min, @holders.map(&:expires_at).min, first_deadline
        ].compact.min
      end

      # Grants the key, refuses it, or queues the request.
      def ask(lease, now, wait)
        return hand_to(lease, now) if @waiters.empty? && room_for?(lease)
        return lease.answer unless wait.positive?

        lease.wait_until(now + wait, now)
        @waiters << lease
      end

      # Removes a waiting request, or releases a granted one. Then admits the waiters that can now
      # have the key.
      def leave(lease, now)
        return admit(now) if @waiters.delete(lease)

        lease.finish(:released)
        vacate(lease, now)
      end

      def held_by(token) = @holders.find { |lease| lease.token == token }

      # Puts the heir in the lease's place among the holders.
      def replace(lease, heir)
        @holders[@holders.index(lease)] = heir
      end

      def vacate(lease, now)
        admit(now) if @holders.delete(lease)
      end

      def admit(now)
        hand_to(@waiters.shift, now) while @waiters.any? && room_for?(@waiters.first)
      end

      # @param fences [Array<Integer>, nil] the fences of the leases to break; nil: all are broken
      # @return [Boolean] was any lease broken?
      def break(now, fences)
        lost, @holders =
          @holders.partition { |lease| fences.nil? || fences.include?(lease.fence) }
        lost.each(&:lose)
        admit(now)
        lost.any?
      end

      # Forgets holders and waiters. No holder is notified of its loss.
      def clear
        @holders.each { |lease| lease.finish(:lost) }.clear
        @waiters.each(&:answer).clear
      end

      # Carries out all renewals, expiries and timeouts of waiters that have become due, each as
      # of the moment when it was due. But a lease that is granted here begins now, because no
      # caller could have used it earlier.
      def catch_up(now)
        while (due = next_event) && due <= now
          if (lease = @holders.find { |holder| holder.renew_at == due })
            @backend.down? ? lease.put_off : lease.renew
          elsif (lease = @holders.find { |holder| holder.expires_at == due })
            lease.lose
            vacate(lease, now)
          else
            give_up(due, now)
          end
        end
      end

      private

      def first_deadline = @waiters.map(&:deadline).min

      def room_for?(lease)
        return true if @holders.empty?
        return false unless (share = lease.share)

        @holders.first.share.mode == share.mode && (share.limit.nil? || @holders.size < share.limit)
      end

      def hand_to(lease, now)
        lease.grant(@backend.next_fence(now), now, lease.ttl)
        @holders << lease
        lease.answer
      end

      def give_up(due, now)
        late, @waiters = @waiters.partition { |lease| lease.deadline <= due }
        late.each(&:answer)
        admit(now)
      end
    end
  end
end
