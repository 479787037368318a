# frozen_string_literal: true

require_relative "../waiting"
require_relative "base"

class RemoteLock
  module Adapters
    # Locks in any store of plock's, where no process of the original is to be excluded: a lock is a
    # lease there.
    #
    # @example
    #   RemoteLock.new(RemoteLock::Adapters::Store.new("local:"))
    class Store < Base
      include Waiting

      # @param connection [Plock::Locking, Object] a store, or what Plock::Store.open takes
      # @raise [Plock::ConfigurationError, Plock::UnsupportedError] as there
      def initialize(connection)
        super
        @leases = Plock::Locking === connection ? connection : Plock::Store.open(connection)
      end

      # @param (see Base#store)
      # @return [Boolean]
      # @raise [ArgumentError] seconds that cannot be right
      # @raise [Plock::Error] the store failed
      def store(key, seconds)
        obtain(key, seconds, 0)
      end

      # @param (see Base#has_key?)
      # @return [Boolean] as far as can be told without asking the store
      def has_key?(key)
        Holdings.find(place(@leases, key))&.valid? || false
      end

      # @param (see Base#delete)
      # @return [Boolean] was it ours?
      # @raise [Plock::Error] the store failed
      def delete(key)
        Thread.handle_interrupt(Plock::Locking::Acquisition.mask) do
          Holdings.take(place(@leases, key))&.release || false
        end
      end

      # @api private
      # @param key [String]
      # @param seconds [Numeric] until the lock frees itself
      # @param wait [Numeric] seconds of patience
      # @return [Boolean] is the lock ours?
      def obtain(key, seconds, wait)
        leased(@leases, key, seconds, wait) { true }
      end
    end
  end
end
