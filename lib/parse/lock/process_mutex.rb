# frozen_string_literal: true

module Parse
  module Lock
    # A mutex that can be waited for with patience, and that belongs to a claim: an object of the caller's, made before it
    # asks. So the caller may always give back, whether it got the mutex or was interrupted on the way.
    #
    # It also answers to a Mutex's lock, try_lock, locked?, owned?, unlock and synchronize, where, as there, the owner is the
    # fiber. Not to sleep, so it is not for a ConditionVariable.
    class ProcessMutex
      def initialize
        @guard = ::Mutex.new
        @freed = ::ConditionVariable.new
        @claim = nil
        @fiber = nil
      end

      # @return [String] without the claim, which may be an owner's token
      def inspect
        "#<#{self.class} #{@claim ? "locked" : "free"}>"
      end

      # @param claim [Object]
      # @param patience [Numeric, nil] seconds; nil: without end
      # @return [Boolean] is it ours now?
      def take(claim, patience)
        deadline = patience && (now + patience)
        @guard.synchronize do
          wait_until(deadline)
          return false if @claim

          @fiber = Fiber.current
          @claim = claim
        end
        true
      end

      # Frees the mutex if it belongs to the claim. Not interruptible: nobody holds the guard for longer than a moment.
      #
      # @param claim [Object]
      # @return [void]
      def give_back(claim)
        Thread.handle_interrupt(Object => :never) do
          @guard.synchronize do
            next unless @claim.equal?(claim)

            @claim = @fiber = nil
            @freed.signal
          end
        end
      end

      # @return [Boolean]
      def locked?
        !@claim.nil?
      end

      # @return [Boolean] is it held by this fiber?
      def owned?
        locked? && @fiber.equal?(Fiber.current)
      end

      # @return [Boolean]
      def try_lock
        take(Fiber.current, 0)
      end

      # @return [self]
      # @raise [ThreadError] this fiber has it already
      def lock
        raise ThreadError, "deadlock; recursive locking" if owned?

        take(Fiber.current, nil)
        self
      end

      # @return [self]
      # @raise [ThreadError] this fiber does not have it
      def unlock
        raise ThreadError, "the mutex is not held by this fiber" unless owned?

        give_back(@claim)
        self
      end

      # @return [Object] the block's value
      # @raise [ThreadError] this fiber has it already
      def synchronize
        raise ThreadError, "deadlock; recursive locking" if owned?

        claim = Object.new
        begin
          take(claim, nil)
          yield
        ensure
          give_back(claim)
        end
      end

      private

      # Whoever is woken and then leaves by an interrupt, without taking it, must not keep the news to himself.
      def wait_until(deadline)
        interrupted = true
        while @claim
          left = deadline && (deadline - now)
          break if left && left <= 0

          @freed.wait(@guard, left)
        end
        interrupted = false
      ensure
        @freed.signal if interrupted && !@claim
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
