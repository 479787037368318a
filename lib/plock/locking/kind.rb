# frozen_string_literal: true

module Plock
  module Locking
    # The kind of a lock. Each kind has store keys of its own, so that locks of different kinds are
    # independent, even if their callers name the same key.
    #
    # @api private
    class Kind
      attr_reader :name

      # @return [String] the end of this kind's store keys
      attr_reader :suffix

      # @return [Boolean] can a lock of this kind have several holders?
      def shared? = @shared

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

      # {.of} takes the first kind whose suffix fits. The suffix of LOCK is empty and fits every
      # store key, so LOCK comes last.
      ALL = [ONCE, SEMAPHORE, READ_WRITE, LOCK].freeze
    end
  end
end
