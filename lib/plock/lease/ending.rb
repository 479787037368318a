# frozen_string_literal: true

module Plock
  class Lease
    # How a lease ends: with its block, or by {Lease#release}.
    #
    # @api private
    module Ending
      # The shortest and the longest pause, in seconds, between two checks of whether another
      # thread's release has ended. The pauses are short, because a release takes one round trip.
      FIRST_LOOK_S = 0.001
      LONGEST_LOOK_S = 0.004
      private_constant :FIRST_LOOK_S, :LONGEST_LOOK_S

      # Releases the lease at the end of its block. Raises nothing, because the block's value or
      # exception must reach the caller.
      def finish
        return if over?

        let_go(trailing: @options.trailing?)
        warn_if_lost
      rescue Error => e
        warn_of_failure(e)
      end

      # Records the outcome of a release that C code made at the end of a block. Called only if that
      # release failed, or if a lease of the block was no longer held.
      #
      # @param answer [Boolean, nil, Error] the store's answer, as for {#released}; an Error if the
      #   release failed
      def end_of_block(answer)
        if Error === answer
          released(nil, nil)
          tell_of_failure(answer, held_for)
          return warn_of_failure(answer)
        end

        released(answer, 0.0)
        warn_if_lost
      end

      # @return [Boolean] is there nothing to release?
      def over? = @hold.nil? || @released || @given_away || @hold.inherited?

      # Begins a release or a hand-over. Only one thread or fiber at a time can do so. Other threads
      # and fibers wait here until that release has ended, or until the lease is handed over or
      # expires. The caller must call {#release_over} in an `ensure`.
      #
      # @return [Float, nil] seconds for which the lease was held, or 0.0 if there is no
      #   subscriber; nil: the lease had already been released or handed over
      def releasing
        me = Fiber.current
        look = FIRST_LOOK_S
        until (@releaser ||= me).equal?(me)
          break if @given_away
          break if Clock.now >= @hold.valid_until # the key is free: no need to wait

          sleep(look)
          look = [2 * look, LONGEST_LOOK_S].min
        end
        return if @released || @given_away

        Events.listening ? held_for : 0.0
      end

      def release_over
        @releaser = nil if @releaser.equal?(Fiber.current)
      end

      # Records the store's answer to a release.
      #
      # @param ours [Boolean, nil] nil: the lease had already been released or handed over
      # @param held_for [Float, nil] as {#releasing} returned it
      # @return [Boolean] was the lease still held?
      def released(ours, held_for)
        @released = true unless @given_away # a lease that was given away may go on in a daemon
        @lost ||= ours == false if held_for
        lose if @lost
        tell(:release, held_for, released: ours) if held_for && !ours.nil? && Events.listening
        ours ? true : false
      end

      # @param received [Boolean] has the caller received the lease?
      # @return [Float] seconds for which the key must still stay taken
      def left_to_keep(received = @options.used)
        if received && @options.at_least.positive?
          # an interrupted adoption has not given the lease to the caller, so @given_after is nil
          [@options.at_least + (@given_after || 0.0) - held_for, 0.0].max
        else
          0.0
        end
      end

      # @param error [Exception, nil] why the release failed; nil: this is not known
      # @param held_for [Float, nil] as {#releasing} returned it
      def tell_of_failure(error, held_for)
        return unless Events.listening

        details = error ? { error: error.class.name } : {}
        tell(:release_failed, held_for || 0.0, **details)
      end

      # Records a release that was cut off before its answer came. Masks do not prevent this if the
      # fiber is stopped, or if a signal handler raises. The store continues the release. Records
      # nothing if the lease is still valid: then the release had not begun, and can be repeated.
      #
      # @param held_for [Float, nil] as {#releasing} returned it; nil: no release began
      # @param before [Exception, nil] the exception that was being raised when the release began
      def cut_off(held_for, before)
        return if @released || held_for.nil? || @hold.valid?

        @released = true
        tell_of_failure($!.equal?(before) ? nil : $!, held_for)
      end

      private

      def warn_of_failure(error)
        Log.warn(
          @options.logger,
          "the lease on #{@key.inspect} could not be released " \
            "(#{error.class}: #{error.message}): it frees itself within #{ttl} s"
        )
      end

      def let_go(keep = left_to_keep, trailing: false)
        before = $!
        since = releasing
        released((trailing && @hold.release_trailing(keep)) || @hold.release(keep), since)
      rescue *Locking::Acquisition::STORE_FAILURES => e
        @released = true # a second call would not help; the caller receives the error
        tell_of_failure(e, since)
        raise
      ensure
        cut_off(since, before)
        release_over
      end
    end
  end
end
