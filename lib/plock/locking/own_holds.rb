# frozen_string_literal: true

module Plock
  module Locking
    # The leases that one fiber holds for a block it runs, or for a {Monitor} it is inside of: while
    # it waits, nothing else can release them. A lease that is over does not count, and neither does
    # a parent's. Nor does one that was returned: another thread may release it.
    #
    # @api private
    class OwnHolds
      # One of a list: a store, what was taken there, and the next one further out. An Array is what
      # Ruby makes fastest, and each block that runs with a lease needs one.
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
      # @return [void]
      def add(store, taken)
        @innermost = [store, taken, @innermost]
      end

      # @param taken [Lease, LeaseGroup] that may have been added
      # @return [void]
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

      # @return [Array<Array(Locking, Lease)>] innermost first; also those that were lost, of which
      #   somebody is to be told
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
