# frozen_string_literal: true

require_relative "../../locking/arguments"
require_relative "lease_state"

module Plock
  class Store
    # Methods for the drop-in replacements of other gems. Such a replacement names the holder of a
    # key itself, and keeps no lease. The store must have the method `check_name`.
    #
    # @api private
    module ByOwner
      # Like {Store#lock_acquire}.
      #
      # @raise [ArgumentError] the store cannot have such a key, or the owner is empty
      def lock_acquire(key, owner, ttl)
        request_for(state_of(key, owner), Locking::Arguments.ttl(ttl)).run(0.0)
      end

      # Like {Store#lock_release}.
      def lock_release(key, owner) = state_of(key, owner).release(0.0)

      private

      def state_of(key, owner)
        raise ArgumentError, "the owner is empty" if owner.empty?

        LeaseState.new(self, check_name(key), owner)
      end
    end
  end
end
