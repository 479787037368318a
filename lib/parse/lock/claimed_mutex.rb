# frozen_string_literal: true

module Parse
  module Lock
    # A mutex that can be waited for with patience, and that belongs to a claim: an object of the
    # caller's, made before it asks. So the caller may always give back, whether it got the mutex
    # or was interrupted on the way.
    #
    # A holder whose thread has ended holds nothing any more.
    class ClaimedMutex
      # Seconds after which a waiter looks whether the holder's thread is still alive. Only a
      # holder that locked without a block can end without giving back.
      LOOK_S = 0.1

      private_constant :LOOK_S

      def initialize
        @guard = ::Mutex.new
        @freed = ::ConditionVariable.new
        @claim = @fiber = @thread = nil
        @blockless = false
      end

      # @return [String] without the claim, which may be an owner's token
      def inspect
        "#<#{self.class} #{locked? ? "locked" : "free"}>"
      end

      # The caller gives it back by {Plock::Interrupts.finally}, also where this answers false or
      # raises.
      #
      # @param claim [Object]
      # @param patience [Numeric, nil] seconds; nil: without end
      # @param blockless [Boolean] the caller may end without giving back
      # @return [Boolean] is it ours now?
      def take(claim, patience, blockless: false)
        deadline = patience && (now + patience)
        @guard.synchronize do
          while locked?
            left = deadline && (deadline - now)
            return false if left && left <= 0

            @freed.wait(@guard, @blockless ? [left, LOOK_S].compact.min : left)
          end
          @claim = nil # of a thread that has ended. An interrupt may come at any of these lines.
          @blockless = blockless
          @fiber = ::Fiber.current
          @thread = ::Thread.current
          @claim = claim
        end
        true
      end

      # Frees the mutex if it belongs to the claim. A waiter that was woken and then interrupted
      # passes the news on by this, too.
      #
      # @param claim [Object]
      # @return [void]
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
      # @return [Boolean] did it?
      def give_back_own
        owned = owned?
        give_back(@claim) if owned
        owned
      end

      # @return [Boolean]
      def locked?
        thread = @thread
        !@claim.nil? && !thread.nil? && thread.alive?
      end

      # @return [Boolean] is it held by this fiber?
      def owned?
        locked? && @fiber.equal?(::Fiber.current)
      end

      private

      def now
        ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
      end
    end
  end
end
