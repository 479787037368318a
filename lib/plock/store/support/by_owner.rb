# frozen_string_literal: true

require_relative "../../locking/arguments"
require_relative "lease_state"

module Plock
  class Store
    # For drop-ins that name the holder of a key themselves, and keep no lease. The store must have
    # `check_name`.
    #
    # @api private
    module ByOwner
      # One attempt to take the lock for `owner`, as {Store#lock_acquire}.
      #
      # @param key [String] the key as it stands in the store
      # @param ttl [Numeric] seconds
      # @return [Boolean] false: the key is held
      # @raise [ArgumentError] a key that the store cannot have
      # @raise [Error] the store could not be asked
      def lock_acquire(key, owner, ttl)
        lease_state = LeaseState.new(self, check_name(key), owner)
        request_for(lease_state, Locking::Arguments.ttl(ttl)).run(0.0)
      end

      # Releases the lock if, and only if, `owner` holds it, as {Store#lock_release}.
      #
      # @param key [String] the key as it stands in the store
      # @return [Boolean] was it held by `owner`?
      # @raise [Error] the store could not be asked
      def lock_release(key, owner) = LeaseState.new(self, check_name(key), owner).release(0.0)
    end
  end
end
