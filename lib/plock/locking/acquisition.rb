# frozen_string_literal: true

require_relative "../lease"
require_relative "../loss_alarm"
require_relative "../status"
require_relative "own_holds"

module Plock
  module Locking
    # Acquires and releases one lease. The hold is in the lease before an interrupt can lose it, so
    # that one place releases it.
    #
    # A store yields its hold as soon as it is granted, and returns it, too. An interrupt at the
    # return of a method, even of one in C, loses the returned value.
    #
    # @api private
    module Acquisition
      # Nothing may interrupt the way out. Under a Fiber scheduler nothing is masked: masks belong
      # to threads, and fibers of one thread would remove each other's.
      THREAD_MASK = { Object => :never }.freeze
      FIBER_MASK = {}.freeze

      # Seconds that a TimeoutError may be delayed to learn the holder.
      EXAMINE_BUDGET = 0.02

      # The failures of a store. Another {Error} may be the loss of another lease, on its way to an
      # outer block.
      STORE_FAILURES = [
        UnavailableError, AuthenticationError, PermissionError, ProtocolError, UnsupportedError
      ].freeze

      private_constant :THREAD_MASK, :FIBER_MASK, :EXAMINE_BUDGET

      # @return [Hash] for Thread.handle_interrupt. Call it before the way out begins, since this
      #   call can be interrupted.
      def self.mask
        Fiber.current_scheduler ? FIBER_MASK : THREAD_MASK
      end

      # @api private
      # @param store_key [String]
      # @param lease [Lease] that gets the hold
      # @raise [TimeoutError]
      # @raise [UnsupportedError] this fiber would wait for itself
      def acquiring(key, store_key, terms, block, lease: nil)
        if terms.wait.positive? && OwnHolds.in_the_way?(self, store_key, terms.share)
          refuse_to_wait_for_itself(key.inspect, terms)
        end
        asking(key, store_key, terms, block, lease) do |own|
          raise_timeout(key.inspect, key, store_key, terms.wait, own)
        end
      end

      # @api private
      # @return [Object, Lease, nil] nil: others held it until patience ended
      def trying(key, store_key, terms, block, lease: nil)
        asking(key, store_key, terms, block, lease) { nil }
      end

      # @api private
      # As {Direct#with_lease}, for stores that have no short way.
      #
      # @return [Object] PlainCalls::UNDONE
      def with_lease(*)
        PlainCalls::UNDONE
      end

      # @api private
      # Hands a lease over for some time under the token of another dump of it: only that dump can
      # then be adopted. The caller must make sure that no two processes use it at once.
      #
      # @param dump [String] can be adopted at the moment
      # @param other [String] can be adopted from then on; may be the same dump
      # @param span [Float] seconds
      # @raise [LeaseLost]
      # @raise [Error]
      def hand_back(dump, other, span)
        key, _keep, rest = Lease.read(dump)
        Thread.handle_interrupt(Object => :never) do
          hold = adopt_hold(rest, false, nil, false, span, Lease.read(other).last) or
            raise lost_before_adoption(key)
          hold.dump
        end
        nil
      end

      private

      def lost_before_adoption(key)
        LeaseLost.new(
          "the lease on #{key.inspect} was lost, or adopted, before this adoption", code: :not_owner
        )
      end

      # @raise [UnsupportedError]
      def refuse_to_wait_for_itself(what, terms)
        permits = terms.share&.limit
        held = permits && permits > 1 ? "all #{permits} permits of #{what}" : what
        advice =
          if terms.share
            "release one of its leases first"
          else
            "use a Plock::Monitor, which can be entered again, or the lease that it has"
          end
        raise UnsupportedError.new(
          "this fiber holds #{held} already, and would wait for itself: #{advice}",
          code: :unsupported
        )
      end

      # @yieldparam token [String, nil] that it waited with, if others held it until `wait:` ended;
      #   the block's value is returned
      def asking(key, store_key, terms, block, lease = nil)
        started = Clock.now if Events.listening
        alarm = LossAlarm.for_leases if terms.raises?
        lease ||= Lease.new(key, terms, alarm)
        taking(lease, lease, terms, alarm, block) do
          fill(lease, store_key, terms, terms.wait)
          agree if !@agreed && lease.hold # with a different secret it is a different key, and free
          tell_of_asking(lease, store_key, terms, Clock.now - started) if started
          return yield(lease.waited_with) unless lease.hold
        end
      end

      # @param asking [Float] seconds since the caller began to acquire several keys
      # @return [Object, nil] the hold that the lease has been given
      def fill(lease, store_key, terms, patience, asking = 0.0)
        taken =
          take(
            store_key, terms.ttl, patience, terms.renew, terms.max_hold, terms.label, terms.watch?,
            terms.share, asking
          ) { |hold| lease.hold = hold }
        return lease.hold = taken unless taken.is_a?(String)

        lease.waited_with = taken
        nil
      end

      # Acquires for stores written in Ruby, and for APIs that keep the hold themselves.
      #
      # @param given [#call, nil] receives the hold
      # @param undo [#call] releases a possible hold on every way out that does not return it
      # @yieldreturn [Object, nil] nil: it is held by others
      # @return [Object, nil]
      def handing_out(given, undo)
        mask = Acquisition.mask
        handed_out = false
        begin
          taken = yield or return
          Thread.handle_interrupt(Object => :never) do
            given&.call(taken)
            handed_out = true
          end
          taken
        ensure
          # Ruby interrupts at a branch, too: the mask comes before it
          Thread.handle_interrupt(mask) { undo.call unless handed_out }
        end
      end
      module_function :handing_out

      # Acquires for a block, or for a caller that releases the lease itself.
      #
      # @param taken [#watch, #finish] a lease or a group of leases
      # @param given [Object] the value for the caller
      # @yield to take them
      def taking(taken, given, terms, alarm, block, &take)
        if block.nil?
          keep(taken, given, terms, &take)
        elsif alarm
          alarm.around do
            use(taken, given, terms, ->(given) { alarm.hearing { block.call(given) } }, &take)
          end
        else
          use(taken, given, terms, block, &take)
        end
      end

      def use(taken, given, terms, block)
        mask = Acquisition.mask
        begin
          # added here and removed after the release, to keep the time under the lock short
          OwnHolds.add(self, taken)
          yield
          taken.watch if terms.watch?
          taken.given if terms.at_least.positive?
          terms.used = true # last, since an interrupt before it means that the block has not run
          block.call(given)
        ensure
          Thread.handle_interrupt(mask) do
            taken.finish
          ensure
            OwnHolds.delete(taken)
          end
        end
      end

      # A caller may forget a lease without a block; the dispatcher warns of it.
      def keep(taken, given, terms)
        Dispatcher.start
        mask = Acquisition.mask
        kept = false
        begin
          yield
          taken.watch if terms.watch?
          taken.given if terms.at_least.positive?
          kept = terms.used = true
          given
        ensure
          Thread.handle_interrupt(mask) { taken.finish unless kept }
        end
      end

      def tell_of_asking(lease, store_key, terms, waited)
        hold = lease.hold
        details = terms.share&.name ? { mode: terms.share.name } : {}
        if hold.nil? || hold.contended?
          Events.tell(:contended, waited, store_key, terms.label, **details)
        end
        if hold then lease.tell(:acquire, waited, ttl: hold.ttl)
        else Events.tell(:timeout, waited, store_key, terms.label, wait: terms.wait, **details)
        end
      end

      # @param own [String, nil] the token that the caller waited with
      def raise_timeout(what, key, store_key, patience, own)
        status = who_holds(key, store_key, own)
        message = "could not acquire #{what} within #{patience} s"
        raise TimeoutError.new(
          status&.held? ? "#{message}: #{status}" : message,
          code: :timed_out,
          status: status
        )
      end

      # Like `examine`, but without this token's place in the queue. In most stores the caller has
      # left the queue by then.
      def examine_others(_own, store_key, shared, budget)
        examine(store_key, shared, budget)
      end

      # A message without the holder is better than another error.
      def who_holds(key, store_key, own)
        Status.new(
          key, store_key, examine_others(own, store_key, Kind.of(store_key).shared?, EXAMINE_BUDGET)
        )
      rescue *STORE_FAILURES
        nil
      end
    end
  end
end
