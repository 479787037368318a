# frozen_string_literal: true

module Plock
  module Locking
    # The leases of read-write locks that one fiber has, so that it need not wait for itself. One that is over does not count, nor does
    # a parent's.
    #
    # They are known weakly: a lease that nobody has any more is to be collected.
    #
    # @api private
    class OwnShares
      SWEEP_AT_LEAST = 16
      private_constant :SWEEP_AT_LEAST

      # @return [OwnShares] of the fiber that calls
      def self.here
        Thread.current[:plock_own_shares] ||= new
      end

      def initialize
        @places = {}
        @leases = ObjectSpace::WeakMap.new
        @sweep_at = SWEEP_AT_LEAST
      end

      # @param lock [Object] what is the same for the same lock
      # @return [Lease, nil]
      def find(lock)
        lease = at(@places[lock])
        lease if lease&.valid?
      end

      # @param lock [Object]
      # @param lease [Lease]
      # @return [void]
      def add(lock, lease)
        sweep if @places.size >= @sweep_at
        place = Object.new
        @leases[place] = lease
        @places[lock] = place
      end

      private

      def at(place)
        @leases[place] if place
      end

      # Nobody says when a lease is over.
      def sweep
        @places.select! { |_lock, place| at(place)&.valid? }
        @sweep_at = [2 * @places.size, SWEEP_AT_LEAST].max
      end
    end
  end
end
