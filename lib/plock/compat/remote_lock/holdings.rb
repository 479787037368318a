# frozen_string_literal: true

require "plock/store/support/per_process"

class RemoteLock
  # The leases of this process, by store, key and owner. All adapters share them, because a caller
  # may acquire a lock through one adapter and release it through another. Expired leases are
  # removed now and then.
  #
  # @api private
  module Holdings
    SWEEP_AT_LEAST = 64

    # The leases, and the number of leases at which the expired ones are removed.
    Known = Struct.new(:leases, :sweep_at)
    private_constant :SWEEP_AT_LEAST, :Known

    @known = Plock::Store::PerProcess.new { Known.new({}, SWEEP_AT_LEAST) }

    class << self
      # @param place [Array] store, key and owner
      def add(place, lease)
        @known.enter do |known|
          sweep(known) if known.leases.size >= known.sweep_at
          known.leases[place] = lease
        end
      end

      def find(place) = @known.enter { |known| known.leases[place] }

      # @return [Plock::Lease, nil] the lease, which is removed from the list
      def take(place) = @known.enter { |known| known.leases.delete(place) }

      private

      def sweep(known)
        known.leases.select! { |_place, lease| lease.valid? }
        known.sweep_at = [2 * known.leases.size, SWEEP_AT_LEAST].max
      end
    end
  end
end
