# frozen_string_literal: true

module Plock
  class Lease
    # How a lease ends: with its block, or by {Lease#release}.
    #
    # @api private
    module Ending
      # Seconds between two checks for the end of another thread's release, which takes a round
      # trip.
      FIRST_LOOK_S = 0.001
      LONGEST_LOOK_S = 0.004
      private_constant :FIRST_LOOK_S, :LONGEST_LOOK_S

      # Releases at the end of the block. Raises nothing, since the block's value or exception must
      # get through.
      #
      # @api private
      def finish
        return if over?

        let_go(trailing: @options.trailing?)
        warn_if_lost
      rescue Error => e
        warn_of_failure(e)
      end

      # The engine released it at the end of its block, but not as usual.
      #
      # @api private
      # @param answer [Boolean, nil, Error] as {#released} has it, or why the release failed
      def end_of_block(answer)
        if Error === answer
          released(nil, nil)
          tell_of_failure(answer, held_for)
          return warn_of_failure(answer)
        end

        released(answer, 0.0)
        warn_if_lost
      end

      # @api private
      # @return [Boolean] is there nothing to release?
      def over? = @hold.nil? || @released || @given_away || @hold.inherited?

      # Begins a release, by one thread or fiber at a time. Others wait here for its end, at most
      # until the lease expires. The caller must call {#release_over} in an `ensure`.
      #
      # @api private
      # @return [Float, nil] seconds that it was held, 0.0 if there is no subscriber; nil: it has
      #   been released
      def releasing
        me = Fiber.current
        look = FIRST_LOOK_S
        until (@releaser ||= me).equal?(me)
          break if Clock.now >= @hold.valid_until # then the key is free in any case

          sleep(look)
          look = [2 * look, LONGEST_LOOK_S].min
        end
        return if @released

        Events.listening ? held_for : 0.0
      end

      # @api private
      def release_over
        @releaser = nil if @releaser.equal?(Fiber.current)
      end

      # Records the store's answer to a release.
      #
      # @api private
      # @param ours [Boolean, nil] nil: it had been released, or handed over
      # @param held_for [Float, nil] as {#releasing} has it
      # @return [Boolean] was it ours?
      def released(ours, held_for)
        @released = true
        @lost ||= ours == false if held_for
        lose if @lost
        tell(:release, held_for, released: ours) if held_for && !ours.nil? && Events.listening
        ours ? true : false
      end

      # @api private
      # @param received [Boolean] has the caller got the lease?
      # @return [Float] seconds that its key must stay taken
      def left_to_keep(received = @options.used)
        if received && @options.at_least.positive?
          # an adoption that was interrupted has not given it to its caller
          [@options.at_least + (@given_after || 0.0) - held_for, 0.0].max
        else
          0.0
        end
      end

      # @api private
      # @param error [Exception, nil] why the release failed; nil: this is not known
      # @param held_for [Float, nil] as {#releasing} has it
      def tell_of_failure(error, held_for)
        return unless Events.listening

        details = error ? { error: error.class.name } : {}
        tell(:release_failed, held_for || 0.0, **details)
      end

      # A release has ended without an answer: the fiber was stopped, or a signal handler raised,
      # and no mask holds these back. The store goes on with the release. A lease that is still
      # valid had not begun it, and can be released again.
      #
      # @api private
      # @param held_for [Float, nil] as {#releasing} has it; nil: no release began
      # @param before [Exception, nil] that was on its way when it began
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
        @released = true # as far as possible; the caller gets the error
        tell_of_failure(e, since)
        raise
      ensure
        cut_off(since, before)
        release_over
      end
    end
  end
end
