# frozen_string_literal: true

require_relative "../lease"
require_relative "../loss_alarm"
require_relative "../status"
require_relative "own_holds"

module Plock
  module Locking
    # From the terms to the lease, and back. What is taken is in the lease before anything can
    # interrupt, so that one place gives it back.
    #
    # A store hands out its hold by yielding it as soon as it is granted, and then returns it, too:
    # what a method returns is lost where an interrupt comes as it returns, also from one in C.
    #
    # @api private
    module Acquisition
      # What may interrupt the way out: nothing. Under a Fiber scheduler nothing is masked, for
      # masks belong to threads, and fibers that take turns would take off one another's.
      THREAD_MASK = { Object => :never }.freeze
      FIBER_MASK = {}.freeze

      # Seconds that a TimeoutError may be held up to learn who has the key.
      EXAMINE_BUDGET = 0.02

      # How a store fails. What else descends from {Error} may be another lease's loss, on its way
      # to a block further out.
      STORE_FAILURES = [
        UnavailableError, AuthenticationError, PermissionError, ProtocolError, UnsupportedError
      ].freeze

      private_constant :THREAD_MASK, :FIBER_MASK, :EXAMINE_BUDGET

      # @return [Hash] for Thread.handle_interrupt. To be asked for before the way out begins:
      #   looking for it can be interrupted.
      def self.mask
        Fiber.current_scheduler ? FIBER_MASK : THREAD_MASK
      end

      # @api private
      # @param store_key [String]
      # @param lease [Lease] that is to be given its hold
      # @raise [TimeoutError]
      # @raise [UnsupportedError] this fiber would wait for itself
      def acquiring(key, store_key, terms, block, lease: nil)
        if terms.wait.positive? && OwnHolds.here.in_the_way?(self, store_key, terms.share)
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
          (
            if terms.share
              "release one of its leases first"
            else
              "use a Plock::Monitor, which can be entered again, or the lease that it has"
            end
          )
        raise UnsupportedError.new(
          "this fiber holds #{held} already, and would wait for itself: #{advice}",
                code: :unsupported
        )
      end

      # @yieldparam token [String, nil] that it waited with, where others held it until patience
      #   ended; the block's value is the answer
      def asking(key, store_key, terms, block, lease = nil)
        started = Clock.now if Events.listening
        alarm = LossAlarm.for_leases if terms.raises?
        lease ||= Lease.new(key, terms, alarm)
        taking(lease, lease, terms, alarm, block) do
          fill(lease, store_key, terms, terms.wait)
          agree if !@agreed && lease.hold # with another secret it is another key, and free
          tell_of_asking(lease, store_key, terms, Clock.now - started) if started
          return yield(lease.waited_with) unless lease.hold
        end
      end

      # @param asking [Float] seconds that the caller has been asking, for several keys, one after
      #   the other
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

      # The store's part in it, for stores that are written in Ruby; and for front doors that keep
      # what they have taken.
      #
      # @param given [#call, nil] is handed what was taken
      # @param undo [#call] gives back what may have been taken, on every way out but with it
      # @yieldreturn [Object, nil] nil: it was not to be had
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

      # Has something taken for a block, or for whoever is to release it himself.
      #
      # @param taken [#watch, #finish] what sees to the leases
      # @param given [Object] what the caller gets of them
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
          # here, and removed behind the release: in between somebody waits for each microsecond
          (own = OwnHolds.here).add(self, taken)
          yield
          taken.watch if terms.watch?
          taken.given if terms.at_least.positive?
          terms.used = true # last, since an interrupt before it means that the block has not run
          block.call(given)
        ensure
          Thread.handle_interrupt(mask) do
            taken.finish
          ensure
            own&.delete(taken)
          end
        end
      end

      # Whoever gets a lease without a block may forget it, and is to hear of that.
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

      # As `examine`, without the place in line of this token. In most stores a caller has left its
      # place by then.
      def examine_others(_own, store_key, shared, budget)
        examine(store_key, shared, budget)
      end

      # What is missing in a message is no reason for another error.
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
