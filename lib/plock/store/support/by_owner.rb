# frozen_string_literal: true

require_relative "../../locking/arguments"
require_relative "lease_state"

module Plock
  class Store
    # For front doors that know a key in the store and a name for who holds it, and keep no lease.
    # Such a store has `check_name`.
    #
    # @api private
    module ByOwner
      # One attempt to take the lock for `owner`, as {Store#lock_acquire}.
      #
      # @param key [String] in the store
      # @param ttl [Numeric] seconds
      # @return [Boolean] false where somebody holds it
      # @raise [ArgumentError] a key that the store cannot have
      # @raise [Error] the store could not be asked
      def lock_acquire(key, owner, ttl)
        request_for(LeaseState.new(self, check_name(key), owner), Locking::Arguments.ttl(ttl)).run(0.0)
      end

      # Releases the lock if, and only if, `owner` holds it, as {Store#lock_release}.
      #
      # @param key [String] in the store
      # @return [Boolean] was it held by `owner`?
      # @raise [Error] the store could not be asked
      def lock_release(key, owner)
        LeaseState.new(self, check_name(key), owner).release(0.0)
      end
    end
  end
end
