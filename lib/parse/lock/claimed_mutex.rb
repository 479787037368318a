# frozen_string_literal: true

module Parse
  module Lock
    # A mutex with a timeout. Its holder is a claim: an object that the caller creates before it
    # takes the mutex. So the caller can always release the mutex, even if an interrupt leaves the
    # caller unsure whether it has taken the mutex.
    #
    # If the holder's thread has ended, the mutex is free.
    #
    # @api private
    class ClaimedMutex
      # Seconds after which a waiter checks that the holder's thread is alive. Waiters do this only
      # if the holder locked without a block. With a block, a thread that ends releases the mutex.
      LOOK_S = 0.1

      private_constant :LOOK_S

      def initialize
        @guard = ::Mutex.new
        @freed = ::ConditionVariable.new
        @claim = @fiber = @thread = nil
        @blockless = false
      end

      # @return [String] without the claim, which may be a token
      def inspect = "#<#{self.class} #{locked? ? "locked" : "free"}>"

      # The caller must call {#give_back} in {Plock::Interrupts.finally}, even if this method
      # returns false or raises.
      #
      # @param patience [Numeric, nil] seconds to wait; nil sets no limit
      # @param blockless [Boolean] whether the caller's thread may end without a release
      # @return [Boolean] whether the mutex is ours now
      def take(claim, patience, blockless: false)
        deadline = patience && (now + patience)
        @guard.synchronize do
          while locked?
            left = deadline && (deadline - now)
            return false if left && left <= 0

            @freed.wait(@guard, @blockless ? [left, LOOK_S].compact.min : left)
          end
          # @claim may still be the claim of a dead thread. It is dropped first, because an
          # interrupt after @thread is set would otherwise make that claim count as held by this
          # thread.
          @claim = nil
          @blockless = blockless
          @fiber = ::Fiber.current
          @thread = ::Thread.current
          @claim = claim
        end
        true
      end

      # Frees the mutex if the claim holds it. Then wakes a waiter if the mutex is free, even if
      # this call has not freed it. If a waiter is interrupted after its wake, its own call of this
      # method wakes the next waiter.
      def give_back(claim)
        ::Thread.handle_interrupt(::Object => :never) do
          @guard.synchronize do
            @claim = @fiber = @thread = nil if @claim.equal?(claim)
            @freed.signal unless locked?
          end
        end
      end

      # Frees the mutex if this fiber holds it.
      #
      # @return [Boolean] whether this fiber held it
      def give_back_own
        owned = owned?
        give_back(@claim) if owned
        owned
      end

      def locked?
        thread = @thread
        !@claim.nil? && !thread.nil? && thread.alive?
      end

      # @return [Boolean] whether this fiber holds it
      def owned? = locked? && @fiber.equal?(::Fiber.current)

      private

      def now = ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
    end
  end
end
