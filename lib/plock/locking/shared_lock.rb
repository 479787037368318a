# frozen_string_literal: true

require_relative "../status"

module Plock
  module Locking
    # The base of {Semaphore} and {ReadWriteLock}.
    class SharedLock
      # @return [String, Symbol] as the caller named it
      attr_reader :key

      # @api private
      def initialize(store, key, store_key)
        @store = store
        @key = key.frozen? ? key : key.dup.freeze
        @store_key = store_key.freeze
      end

      # Asks the store for the holders and the waiters.
      #
      # @return [Status]
      # @raise [Error] the request to the store failed
      def status = @store.status(Status.new(@key, @store_key, nil))

      # Takes the lock away from all its holders. Each of them learns of the loss as {Lease#lost?}
      # describes.
      #
      # @return [Boolean] was the lock held?
      # @raise [Error] the request to the store failed
      def break = @store.break_key(@store_key)

      private

      # @param raises [Boolean] as for {Acquisition#acquiring}
      def ask(share, options, raises:, &block)
        if block_given? && plain?(options)
          value =
            @store.with_lease(
              @key, @store_key, share, options.fetch(:ttl, USUAL), options.fetch(:wait, USUAL),
              false, raises, &block
            )
          return value unless PlainCalls::UNDONE.equal?(value)
        end
        @store.acquiring(
          @key, @store_key, options_for(share, options, block), block, raises: raises
        )
      end

      def options_for(share, options, block) = @store.new_options(block, share).with(**options)

      def plain?(options)
        options.empty? || options.size == [options.key?(:ttl), options.key?(:wait)].count(true)
      end
    end
  end
end
