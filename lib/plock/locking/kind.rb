# frozen_string_literal: true

module Plock
  module Locking
    # The kind of lock that a key is. Each kind has names of its own in the store, so that locks of
    # one key and different kinds do not meet.
    #
    # @api private
    class Kind
      # @return [Symbol]
      attr_reader :name

      # @return [String] what its names end with
      attr_reader :suffix

      # @return [Boolean] can it have several holders?
      def shared?
        @shared
      end

      # @param store_key [String]
      # @return [Kind]
      def self.of(store_key)
        ALL.find { |kind| store_key.end_with?(kind.suffix) }
      end

      def initialize(name, suffix, shared)
        @name = name
        @suffix = suffix
        @shared = shared
        freeze
      end

      LOCK = new(:lock, "", false)
      ONCE = new(:once, ":once", false)
      SEMAPHORE = new(:semaphore, ":semaphore", true)
      READ_WRITE = new(:read_write, ":rw", true)

      # Every name ends with nothing: that one is last.
      ALL = [ONCE, SEMAPHORE, READ_WRITE, LOCK].freeze
    end
  end
end
