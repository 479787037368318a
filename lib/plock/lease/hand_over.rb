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

      # Hands the lease over to the process that will adopt the returned value.
      #
      # @return [String, false, nil] the store's part of the dump; false: the lease is lost; nil:
      #   another thread has released the lease, or handed it over
      def hand_on
        handed = @hold.dump or return handed

        @given_away = true
        told = false
        tell(:hand_over, held_for) if Events.listening
        told = true
        handed
      ensure
        take_back(handed) if handed && !told
      end

      # Takes the lease over again, in this process. If the store no longer has the hold, the lease
      # is lost. `max_hold:` and `at_least:` still count from the first acquire.
      #
      # @param store [Locking]
      # @param handed [String, false] what {#hand_on} returned
      # @raise [Error] the request to the store failed; the lease is not valid here, and is
      #   released in the background
      def go_on(store, handed)
        @since ||= @hold.acquired_at
        has = handed &&
              store.adopt_hold(
                handed, @options.renew, left_to_renew, @options.watch?, replicas: @options.replicas
              ) do |hold|
                @hold = hold
              end
        @given_away = false
        @releaser = nil # may be a thread of the parent process
        return lose_on_the_way unless has

        tell(:adopt, 0.0, ttl: ttl) if Events.listening
        watch if @options.watch?
      rescue *Locking::Acquisition::STORE_FAILURES
        release_later(store, handed)
        raise
      end

      # @return [Boolean] was the lease lost while it moved into this daemon? If so, this process
      #   has no hold.
      def lost_on_the_way? = @hold.is_a?(LostHold)

      private

      # Releases the lease that was handed over, because the caller does not receive the dump.
      def take_back(handed)
        release_handed(@options.store, handed)
      rescue *Locking::Acquisition::STORE_FAILURES
        release_later(@options.store, handed)
      end

      def release_handed(store, handed)
        store.adopt_hold(handed, false, nil, false, replicas: 0)&.release(left_to_keep)
      end

      # Repeats the release until it succeeds or the lease expires, because no other process can
      # release the lease.
      def release_later(store, handed)
        over = @hold.valid_until
        Background.launch("plock release") do
          until Clock.now >= over
            begin
              break release_handed(store, handed)
            rescue *Locking::Acquisition::STORE_FAILURES
              raise if Background.killed?

              sleep(AGAIN_S)
            end
          end
        end
      end

      # Reports the loss in this process. All other notices of the loss go to the parent process.
      def lose_on_the_way
        Dispatcher.start
        @hold = LostHold.new(@hold)
        @lost = true
        lose
      end

      # Seconds for which the lease may still be renewed; nil: no limit. Never zero, because
      # stores treat zero as no limit.
      def left_to_renew = @options.max_hold && [@options.max_hold - held_for, LEAST_SPAN].max
    end
  end
end
