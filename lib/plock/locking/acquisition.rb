# frozen_string_literal: true

require_relative "../interrupts"
require_relative "../lease"
require_relative "../loss_alarm"
require_relative "../status"
require_relative "../uninterrupted"
require_relative "own_holds"

module Plock
  module Locking
    # Acquires and releases one lease. The {Lease} receives the hold before an interrupt can lose
    # it, so an `ensure` around the call can always release the key.
    #
    # A store yields the hold as soon as it is granted, and also returns it. The return value alone
    # is not enough. An interrupt can lose the return value of any method, even of a C method.
    #
    # @api private
    module Acquisition
      # Seconds by which plock may delay a TimeoutError to find out who holds the key.
      EXAMINE_BUDGET = 0.02

      # The errors that mean that the store failed. Any other {Error} may report the loss of an
      # outer block's lease, and must reach that block.
      STORE_FAILURES = [
        UnavailableError, AuthenticationError, PermissionError, ProtocolError, UnsupportedError
      ].freeze

      private_constant :EXAMINE_BUDGET

      # @return [AcquireOptions] the caller must still add the keywords of the call
      def new_options(block, share = nil) =
        AcquireOptions.new(config, block, share, unable, store: self)

      # @param raises [Boolean] does a timeout raise {TimeoutError} instead of returning nil?
      # @param lease [Lease] receives the hold
      # @return [Object, Lease, nil] nil: others held the key until `wait:` ended
      # @raise [UnsupportedError] this fiber would wait for itself
      def acquiring(key, store_key, options, block, raises:, lease: nil)
        if raises && options.wait.positive? && OwnHolds.in_the_way?(self, store_key, options.share)
          refuse_to_wait_for_itself(key.inspect, options)
        end
        started = Clock.now if Events.listening
        alarm = LossAlarm.for_leases if options.raises?
        lease ||= Lease.new(key, options, alarm)
        taking(lease, lease, options, alarm, block) do
          telling_of_call(started, lease, store_key, options) do
            fill(lease, store_key, options, options.wait)
            # A holder of this key has the same secret, because a different secret makes a different
            # store key. So a refused call need not compare secrets.
            agree if !@agreed && lease.hold
            tell_of_asking(lease, store_key, options, Clock.now - started) if started
            lease.hold
          end
          next if lease.hold
          return unless raises

          raise_timeout(key.inspect, key, store_key, options.wait, lease.waited_with)
        end
      end

      # Acquires for a block of a {SharedLock} or {Monitor}, if the store can do so in C.
      #
      # @param store_key [String, nil] nil: the store key of a plain lock on the key
      # @param ttl [Numeric, Object] may be USUAL, like `wait`
      # @param renews [Boolean] is the lease renewed even if there is a `ttl`?
      # @param raises [Boolean] does a timeout raise {TimeoutError} instead of returning nil?
      # @return [Object, nil] the block's value; nil: another holder kept the key until `wait`
      #   ended; PlainCalls::UNDONE: nothing was done, so the caller must use {#acquiring}
      def with_lease(key, store_key, share, ttl, wait, renews, raises, &block)
        return PlainCalls::UNDONE unless @plain

        acquire_directly(@plain, key, store_key, share, ttl, wait, renews, raises, &block)
      end

      # Adopts a dump, and hands the lease over again for `span` seconds under the token of another
      # dump. From then on, only that other dump can be adopted. The caller must make sure that
      # only one process at a time uses either dump.
      #
      # @param dump [String] the dump that can be adopted now
      # @param other [String] the dump that can be adopted afterwards; may be the same dump
      # @param span [Float] seconds
      def hand_back(dump, other, span)
        key, _keep, rest = Lease.read(dump)
        hold = nil
        Interrupts.defer do
          adopt_hold(rest, false, nil, false, span, Lease.read(other).last) do |given|
            hold = given
          end or raise lost_before_adoption(key)
        end
        nil
      ensure
        Interrupts.complete { hold&.leave }
      end

      private

      def options_for(block, **options) = new_options(block).with(**options)

      def lost_before_adoption(key)
        LeaseLost.new(
          "the lease on #{key.inspect} was lost, or adopted, before this adoption", code: :not_owner
        )
      end

      def refuse_to_wait_for_itself(what, options)
        permits = options.share&.limit
        held = permits && permits > 1 ? "all #{permits} permits of #{what}" : what
        advice =
          if options.share
            "release one of its leases first"
          else
            "use a Plock::Monitor, which can be entered again, or the lease that it has"
          end
        raise UnsupportedError,
              "this fiber holds #{held} already, and would wait for itself: #{advice}"
      end

      # @param patience [Float] seconds to wait for the key
      # @param asking [Float] seconds since a call for several keys began; 0.0 if the call has one
      #   key
      # @return [Object, nil] the hold that the lease has received
      def fill(lease, store_key, options, patience, asking = 0.0)
        taken =
          take(
            store_key, options.ttl, patience, options.renew, options.max_hold, options.label,
            options.watch?, options.share, asking, options.replicas
          ) { |hold| lease.hold = hold }
        return lease.hold = taken unless taken.is_a?(String)

        lease.waited_with = taken
        nil
      end

      # Runs an acquire, so that either `given` receives the hold or `undo` releases it, even after
      # an interrupt.
      #
      # @param given [#call, nil] receives the hold
      # @param undo [#call] releases the hold, if there is one, whenever this method does not
      #   return it
      # @yield to acquire
      # @yieldreturn [Object, nil] the hold; nil: others hold the key
      # @return [Object, nil] the hold
      def handing_out(given, undo)
        handed_out = false
        taken = yield or return
        Thread.handle_interrupt(UNINTERRUPTED) do
          given&.call(taken)
          handed_out = true
        end
        taken
      ensure
        # Ruby may interrupt at a branch, so the mask must begin before the `unless`
        Interrupts.complete { undo.call unless handed_out }
      end
      module_function :handing_out

      # Acquires for a block, or for a caller that releases the lease itself.
      #
      # @param taken [#watch, #finish] a lease or a group of leases
      # @param given [Object] what the block receives, or what the call returns without a block
      # @yield to acquire the leases
      def taking(taken, given, options, alarm, block, &take)
        if block.nil?
          keep(taken, given, options, &take)
        elsif alarm
          alarm.around do
            use(taken, given, options, ->(given) { alarm.hearing { block.call(given) } }, &take)
          end
        else
          use(taken, given, options, block, &take)
        end
      end

      def use(taken, given, options, block)
        # `add` runs before the acquire, and `delete` after the release, so that the two do not
        # lengthen the time for which the lock is held.
        OwnHolds.add(self, taken)
        yield
        taken.watch if options.watch?
        taken.given if options.at_least.positive?
        options.used = true # last: an interrupt before this line means that the block has not run
        block.call(given)
      ensure
        Interrupts.complete do
          taken.finish
        ensure
          OwnHolds.delete(taken)
        end
      end

      # The caller may forget to release the lease. So this method starts the dispatcher, which
      # warns of a lease that was not released.
      def keep(taken, given, options)
        kept = false
        Dispatcher.start
        yield
        taken.watch if options.watch?
        taken.given if options.at_least.positive?
        kept = options.used = true
        given
      ensure
        Interrupts.complete { taken.finish unless kept }
      end

      # Tells subscribers that a call begins, and that it has ended, however it ends.
      #
      # @param started [Float, nil] when the call began, on {Clock}; nil: there is no subscriber
      # @param lease [Lease] the lease of the call's first key
      # @yieldreturn [Object, nil] nil: others held a key until `wait:` ended
      def telling_of_call(started, lease, store_key, options, keys = 1)
        return yield unless started && Events.calls

        outcome = :failed
        before = $!
        begun = false
        begin
          tell_of_call(:wait_begin, 0.0, lease, store_key, options, keys: keys) { begun = true }
          outcome = yield ? :acquired : :timed_out
        ensure
          error = $!.class.name if outcome == :failed && !$!.equal?(before)
          Interrupts.defer do
            next unless begun

            tell_of_call(:wait_end, Clock.now - started, lease, store_key, options,
                         keys: keys, outcome: outcome, **(error ? { error: error } : {}))
          end
        end
      end

      def tell_of_call(name, waited, lease, store_key, options, **details, &beginning)
        details[:mode] = options.share.name if options.share&.name
        Events.tell(name, waited, store_key, options.label, key: lease.key, **details, &beginning)
      end

      def tell_of_asking(lease, store_key, options, waited)
        tell_of(
          lease.hold && lease, store_key, options.share, options.label, options.wait, waited,
          lease.key
        )
      end

      # @param lease [Lease, nil] nil: others held the key until `wait:` ended
      # @param patience [Float] the call's `wait:`, in seconds
      # @param waited [Float] seconds since the call began
      # @param key [String, Symbol, nil] as the caller named it
      def tell_of(lease, store_key, share, label, patience, waited, key = lease&.key)
        details = share&.name ? { mode: share.name } : {}
        if lease.nil? || lease.hold.contended?
          Events.tell(
            :contended, waited, store_key, label, key: key, lease_id: lease&.hold&.id, **details
          )
        end
        if lease then lease.tell(:acquire, waited, ttl: lease.ttl)
        else Events.tell(:timeout, waited, store_key, label, key: key, wait: patience, **details)
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

      # Like `examine`, but does not list the caller itself, whose token may still be in the queue.
      # In most stores, the caller has already left the queue, so this method only calls `examine`.
      def examine_others(_own, store_key, shared, budget) = examine(store_key, shared, budget)

      # If the store fails here, the TimeoutError does not name the holder.
      def who_holds(key, store_key, own)
        people = examine_others(own, store_key, Kind.of(store_key).shared?, EXAMINE_BUDGET)
        Status.new(key, store_key, people, node_of(store_key))
      rescue *STORE_FAILURES
        nil
      end
    end
  end
end
