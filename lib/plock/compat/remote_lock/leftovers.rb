# frozen_string_literal: true

class RemoteLock
  # The locks that this fiber may have left in a store: their release failed, or the answer to their
  # request is missing. The store then has this fiber as the owner, but no block of it has the lock.
  # A place that is kept too long does no harm: whoever acquires the lock looks for it first.
  #
  # @api private
  module Leftovers
    MOST = 1_000
    private_constant :MOST

    class << self
      # @param place [Array] the adapter's store, and the key there
      def add(place)
        known = known_here
        known.shift if known.size >= MOST
        known[place] = true
      end

      def include?(place) = known_here.key?(place)

      def delete(place) = known_here.delete(place)

      # @return [Boolean] is there any, of whatever store?
      def any? = known_here.any?

      private

      # Thread#[] belongs to the fiber.
      def known_here = Thread.current[:plock_remote_lock_leftovers] ||= {}
    end
  end
end
