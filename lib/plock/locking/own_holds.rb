# frozen_string_literal: true

module Plock
  module Locking
    # The leases that one fiber holds for the blocks and monitors that it is inside: while the fiber
    # waits, no other code can release them. A lease that has ended or belongs to the parent process
    # does not count. Neither does a lease that was returned, because another thread may release it.
    #
    # @api private
    class OwnHolds
      # An entry of a linked list: the store, the lease or group, and the next outer entry. It is an
      # Array because Ruby makes these fastest, and each block with a lease needs one.
      STORE, TAKEN, OUTER = 0, 1, 2
      private_constant :STORE, :TAKEN, :OUTER

      # @return [OwnHolds] of the fiber that calls
      def self.here
        Thread.current[:plock_own_holds] ||= new
      end

      def initialize
        @innermost = nil
      end

      # @param store [Locking]
      # @param taken [Lease, LeaseGroup]
      def add(store, taken)
        @innermost = [store, taken, @innermost]
      end

      # @param taken [Lease, LeaseGroup] that may have been added
      def delete(taken)
        held = @innermost
        return if held.nil?
        return @innermost = held[OUTER] if held[TAKEN].equal?(taken)

        held = held[OUTER] while held[OUTER] && !held[OUTER][TAKEN].equal?(taken)
        held[OUTER] = held[OUTER][OUTER] if held[OUTER]
      end

      # @param share [Share, nil] what is asked for
      # @return [Boolean] would this fiber wait for itself?
      def in_the_way?(store, store_key, share)
        return false if @innermost.nil?

        limit = share ? share.limit : 1
        !limit.nil? && count(store, store_key) >= limit
      end

      # @return [Array<Array(Locking, Lease)>] innermost first; also lost ones, whose owner must be
      #   told
      def leases
        leases = []
        each do |store, taken|
          taken.each_lease { |lease| leases << [store, lease] unless lease.over? }
        end
        leases
      end

      private

      def each
        held = @innermost
        while held
          yield held[STORE], held[TAKEN]
          held = held[OUTER]
        end
      end

      def count(store, store_key)
        number = 0
        each { |from, taken| number += 1 if from.equal?(store) && taken.holds?(store_key) }
        number
      end
    end
  end
end
