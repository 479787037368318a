# frozen_string_literal: true

require_relative "../background"
require_relative "../clock"
require_relative "../dispatcher"
require_relative "../lost_hold"

module Plock
  class Lease
    # How a lease moves to another process, and how it continues in a daemon ({Daemon}).
    #
    # @api private
    module HandOver
      LEAST_SPAN = 0.001

      # Seconds between two attempts to release a lease that no process took over.
      AGAIN_S = 0.1
      private_constant :LEAST_SPAN, :AGAIN_S

      # @return [String, nil] the dump that {Lease#dump} has made; a caller needs it if a signal
      #   handler raised just before {Lease#dump} returned
      attr_reader :dumped

      # Gives the lease up, so that another process can adopt it with the dump of its hold. The
      # calling fiber must then pass that dump on to the other process, or call {#go_on} or
      # {#take_back}. Until then, no other fiber can release the lease or hand it over.
      #
      # @return [Boolean, nil] false: the lease is lost; nil: another thread has released the
      #   lease, or handed it over
      def hand_on
        return release_over if releasing.nil?
        return unless handing_on?

        ours = valid? ? @hold.leave : (false if lost?)
        return release_over if ours.nil?

        @lost ||= !ours
        @given_away = ours
        tell(:hand_over, held_for) if ours && Events.listening
        ours
      end

      # Takes the lease over again after {#hand_on}, perhaps in another process. If the store no
      # longer has the hold, the lease is lost. `max_hold:` and `at_least:` still count from the
      # first acquire. If an interrupt stops this method, it can start over.
      #
      # @raise [Error] the request to the store failed; the lease is not valid here, and is
      #   released in the background
      def go_on(store)
        return unless handing_on?

        note_hand_over
        adopted = @given_away && carry_on(store)
        lose_on_the_way if @lost
        @releaser = nil
        tell(:adopt, 0.0, ttl: ttl) if adopted && Events.listening
      rescue *Locking::Acquisition::STORE_FAILURES
        release_later(store)
        @releaser = nil
        raise
      end

      # @return [Boolean] was the lease lost while it moved into this daemon? If so, this process
      #   has no hold.
      def lost_on_the_way? = @hold.is_a?(LostHold)

      private

      # Has this fiber called {#hand_on}, but not yet {#go_on} or {#take_back}?
      def handing_on? = @releaser.equal?(Fiber.current)

      # Records the hand-over if a signal handler cut {#hand_on} off just after the store had given
      # the lease up.
      def note_hand_over
        @given_away = true unless @released || @hold.valid? || lost?
      end

      # @return [Boolean] did the store still have the hold?
      def carry_on(store)
        has = adopt_again(
          store, @options.renew, left_to_renew, @options.watch?, replicas: @options.replicas
        )
        @given_away = false
        @lost = true unless has
        watch if has && @options.watch?
        has
      end

      # @return [Boolean] true if this process has the hold again, perhaps because a signal handler
      #   cut an earlier call off after the adoption
      def adopt_again(store, *options, **replicas)
        return true if @hold.valid?

        @since ||= @hold.acquired_at
        !store.adopt_hold(@hold.dump, *options, **replicas) { |hold| @hold = hold }.nil?
      end

      # Releases the lease if {#hand_on} gave it up. The caller of {Lease#dump} does not receive the
      # dump, so no process can adopt the lease. If an interrupt stops this method, it can start
      # over.
      def take_back
        return unless handing_on?

        note_hand_over
        release_handed(@options.store) if @given_away
        @releaser = nil
      rescue *Locking::Acquisition::STORE_FAILURES
        release_later(@options.store)
        @releaser = nil
      end

      def release_handed(store)
        @hold.release(left_to_keep) if adopt_again(store, false, nil, false, replicas: 0)
      end

      # Repeats the release until it succeeds or the lease expires, because no other process can
      # release the lease.
      def release_later(store)
        over = @hold.valid_until
        Background.launch("plock release") do
          until Clock.now >= over
            begin
              break release_handed(store)
            rescue *Locking::Acquisition::STORE_FAILURES
              raise if Background.killed?

              sleep(AGAIN_S)
            end
          end
        end
      end

      # Reports the loss in this daemon, because all other notices of the loss go to the parent
      # process.
      def lose_on_the_way
        Dispatcher.start
        @hold = LostHold.new(@hold)
        lose
      end

      # Seconds for which the lease may still be renewed; nil: no limit. Never zero, because
      # stores treat zero as no limit.
      def left_to_renew = @options.max_hold && [@options.max_hold - held_for, LEAST_SPAN].max
    end
  end
end
