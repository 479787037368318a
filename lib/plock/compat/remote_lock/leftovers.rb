# frozen_string_literal: true

require "securerandom"

class RemoteLock
  # The locks that this fiber may have left in a store: their release failed, or the answer to their
  # request is missing. The store then has this fiber as the owner, but no block of it has the lock.
  #
  # The failed request may still be carried out. So before this fiber acquires such a lock again, it
  # gets another name there. A release of the lock that was left then does not free the new one.
  #
  # A place is the adapter's store, and the key there. One that is kept too long does no harm:
  # each acquire of the lock looks for it first.
  #
  # @api private
  module Leftovers
    MOST = 1_000
    private_constant :MOST

    class << self
      def add(place) = keep(known, place, true)

      def include?(place) = known.key?(place)

      def delete(place) = known.delete(place)

      # @return [Boolean] is there any, of whatever store?
      def any? = known.any?

      def rename(place) = keep(names, place, SecureRandom.hex(4))

      # @param store [Object]
      # @param key [String] as the store has it
      # @return [String, nil] this fiber's name there, if it has got another one
      def name(store, key) = (names[[store.__id__, key]] if names.any?)

      private

      # Thread#[] belongs to the fiber.
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
