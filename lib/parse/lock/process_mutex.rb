# frozen_string_literal: true

module Parse
  module Lock
    # The mutex of a key within this process. It has a Mutex's methods lock, try_lock, locked?,
    # owned?, unlock and synchronize. As with Mutex, the fiber is the owner, and a thread that
    # ends releases the mutex. It has no `sleep`, so a ConditionVariable cannot use it.
    #
    # All objects for one key stand for the same mutex, even if one of them was kept for a long
    # time.
    class ProcessMutex
      # @api private
      # @param mutexes [ProcessMutexes]
      # @param key [String]
      def initialize(mutexes, key)
        @mutexes = mutexes
        @key = key
      end

      # @return [String] without the key
      def inspect = "#<#{self.class} #{locked? ? "locked" : "free"}>"

      # @return [Boolean]
      def locked? = @mutexes.locked?(@key)

      # @return [Boolean] whether this fiber holds it
      def owned? = @mutexes.owned?(@key)

      # @return [Boolean]
      def try_lock = @mutexes.take(@key, 0)

      # @return [self]
      # @raise [ThreadError] this fiber already holds it
      def lock
        raise ::ThreadError, "deadlock; recursive locking" if owned?

        @mutexes.take(@key, nil)
        self
      end

      # @return [self]
      # @raise [ThreadError] this fiber does not hold it
      def unlock
        raise ::ThreadError, "not held by this fiber" unless @mutexes.give_back_own(@key)

        self
      end

      # @yield
      # @return [Object] the block's value
      # @raise [ThreadError] this fiber already holds it
      def synchronize(&block) = @mutexes.synchronize(@key, &block)
    end
  end
end
