# frozen_string_literal: true

module Plock
  module Locking
    # The leases of read-write locks that one fiber has acquired without a block. plock uses them
    # to notice when the fiber would wait for itself. {OwnHolds} has the leases of blocks. A lease
    # that has ended, or that belongs to the parent process, does not count.
    #
    # The leases are the values of a WeakMap, so that an unreferenced lease can be
    # garbage-collected. The key of each lease in the WeakMap is an object that is called its place.
    # After GC.compact on Ruby 3.1, a WeakMap can return a wrong object for a key, even one with the
    # same object_id. So each lease also refers to its place. A lookup by a place ignores every
    # object that is not a lease with this place.
    #
    # @api private
    class OwnShares
      SWEEP_AT_LEAST = 16
      private_constant :SWEEP_AT_LEAST

      # @return [OwnShares] the shares of the calling fiber
      def self.here
        Thread.current[:plock_own_shares] ||= new
      end

      # @param lock [Object] identifies the lock, as a Hash key
      # @return [Lease, nil] the calling fiber's lease
      def self.find(lock) = Thread.current[:plock_own_shares]&.find(lock)

      def initialize
        @places = {}
        @leases = ObjectSpace::WeakMap.new
        @sweep_at = SWEEP_AT_LEAST
      end

      # @param lock [Object] identifies the lock, as a Hash key
      def find(lock)
        lease = at(@places[lock])
        lease if lease&.valid?
      end

      def add(lock, lease)
        sweep if @places.size >= @sweep_at
        place = lease.place = Object.new
        @leases[place] = lease
        @places[lock] = place
      end

      private

      def at(place)
        return if place.nil?

        lease = @leases[place]
        lease if Lease === lease && lease.place.equal?(place)
      end

      # Removes leases that have ended, since a lease does not report its end.
      def sweep
        @places.select! { |_lock, place| at(place)&.valid? }
        @sweep_at = [2 * @places.size, SWEEP_AT_LEAST].max
      end
    end
  end
end
