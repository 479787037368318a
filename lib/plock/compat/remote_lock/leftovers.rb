# frozen_string_literal: true

require "securerandom"

class RemoteLock
  # The locks that this fiber may have left in a store, because a release failed or an acquire was
  # not answered. The store may still name this fiber as the owner, although no block of this fiber
  # holds the lock.
  #
  # The store may still carry out the failed request. So before this fiber acquires such a lock
  # again, it chooses a new owner name for that lock. A late release under the old name then does
  # not free the lock that the fiber has acquired in the meantime.
  #
  # A place is the adapter's store, and the lock's key in that store. A place that is kept too long
  # does no harm, because the next acquire of the lock removes the place.
  #
  # @api private
  module Leftovers
    MOST = 1_000
    private_constant :MOST

    class << self
      def add(place) = keep(known, place, true)

      def include?(place) = known.key?(place)

      def delete(place) = known.delete(place)

      # @return [Boolean] is any place known, in any store?
      def any? = known.any?

      def rename(place) = keep(names, place, SecureRandom.hex(4))

      # @param key [String] the key in the store
      # @return [String, nil] this fiber's new owner name for the lock; nil if the fiber still uses
      #   its first name
      def name(store, key) = (names[[store.__id__, key]] if names.any?)

      private

      # Thread#[] is local to the fiber.
      def known = Thread.current[:plock_remote_lock_leftovers] ||= {}

      def names = Thread.current[:plock_remote_lock_names] ||= {}

      def keep(places, place, value)
        places.delete(place)
        places.shift if places.size >= MOST
        places[place] = value
      end
    end
  end
end
