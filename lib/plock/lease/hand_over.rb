# frozen_string_literal: true

require_relative "../background"
require_relative "../clock"
require_relative "../dispatcher"
require_relative "../lost_hold"

module Plock
  class Lease
    # How a lease goes over to another process, and on in a daemon ({Daemon}).
    #
    # @api private
    module HandOver
      LEAST_SPAN = 0.001

      # Seconds until the store is asked again to release what a daemon could not take over.
      AGAIN_S = 0.1
      private_constant :LEAST_SPAN, :AGAIN_S

      # Leaves the key to the process that gets the result.
      #
      # @return [String, false, nil] for the store; false: it is lost; nil: another thread has
      #   released it, or handed it over
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

      # Has the key again, in this process. If the hold was lost, so is the lease. What counts from
      # the acquire goes on counting.
      #
      # @param store [Locking]
      # @param handed [String, false] what {#hand_on} returned
      # @raise [Error] the store could not be asked; the lease is not valid here, and is released in
      #   the background
      def go_on(store, handed)
        @since ||= @hold.acquired_at
        has = handed &&
              store.adopt_hold(
                handed, @options.renew, left_to_renew, @options.watch?, replicas: @options.replicas
              ) do |hold|
                @hold = hold
              end
        @given_away = false
        @releaser = nil # another thread of the parent
        return lose_on_the_way unless has

        tell(:adopt, 0.0, ttl: ttl) if Events.listening
        watch if @options.watch?
      rescue *Locking::Acquisition::STORE_FAILURES
        release_later(store, handed)
        raise
      end

      # @return [Boolean] was it lost on the way into this process, a daemon, which has no hold of
      #   it?
      def lost_on_the_way? = @hold.is_a?(LostHold)

      private

      # Releases what was handed over, since the caller does not get the dump.
      def take_back(handed)
        release_handed(@options.store, handed)
      rescue *Locking::Acquisition::STORE_FAILURES
        release_later(@options.store, handed)
      end

      def release_handed(store, handed)
        store.adopt_hold(handed, false, nil, false, replicas: 0)&.release(left_to_keep)
      end

      # The store may be back a moment later, and no other process knows of the lease.
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

      # Whatever was about to tell of it was the parent's.
      def lose_on_the_way
        Dispatcher.start
        @hold = LostHold.new(@hold)
        @lost = true
        lose
      end

      # Seconds, or nil: for ever. Never zero, which stores take for that.
      def left_to_renew = @options.max_hold && [@options.max_hold - held_for, LEAST_SPAN].max
    end
  end
end
