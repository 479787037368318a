# frozen_string_literal: true

require_relative "../waiting"
require_relative "base"

class RemoteLock
  module Adapters
    # Locks in any store of plock, as leases. Processes using the original gem do not see them.
    #
    # @example
    #   RemoteLock.new(RemoteLock::Adapters::Store.new("local:"))
    class Store < Base
      include Waiting

      # @param connection [Plock::Locking, Object] a store, or an argument of Plock::Store.open
      # @raise [Plock::ConfigurationError, Plock::UnsupportedError] Plock::Store.open refused the
      #   argument
      def initialize(connection)
        super
        @leases = Plock::Locking === connection ? connection : Plock::Store.open(connection)
      end

      # @param (see Base#store)
      # @return [Boolean]
      # @raise [ArgumentError] `seconds` is invalid
      # @raise [Plock::Error] the store failed
      def store(key, seconds) = obtain(key, seconds, 0)

      # @param (see Base#has_key?)
      # @return [Boolean] whether the lock is ours, without a call to the store
      def has_key?(key) = Holdings.find(place(@leases, key))&.valid? || false

      # @param (see Base#delete)
      # @return [Boolean] whether the lock was ours
      # @raise [Plock::Error] the store failed
      def delete(key)
        Plock::Interrupts.defer do
          Holdings.take(place(@leases, key))&.release || false
        end
      end

      # @api private
      def turns = @leases

      # @api private
      # @param (see QueuedAcquire#obtain)
      # @return (see QueuedAcquire#obtain)
      def obtain(key, seconds, wait) = leased(@leases, key, seconds, wait) { true }
    end
  end
end
