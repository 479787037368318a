# frozen_string_literal: true

require_relative "../interrupts"
require_relative "../lease"
require_relative "../loss_alarm"
require_relative "../status"
require_relative "../uninterrupted"
require_relative "own_holds"

module Plock
  module Locking
    # Acquires and releases one lease. The lease has the hold before an interrupt can lose it, so
    # the release at one place is enough.
    #
    # A store yields its hold as soon as it is granted, and returns it, too. An interrupt at the
    # return of a method, even of one in C, loses the returned value.
    #
    # @api private
    module Acquisition
      # Nothing may interrupt the way out. Under a Fiber scheduler nothing is masked: masks belong
      # to threads, and fibers of one thread would remove each other's.
      FIBER_MASK = {}.freeze

      # Seconds that a TimeoutError may be delayed to learn the holder.
      EXAMINE_BUDGET = 0.02

      # The failures of a store. Another {Error} may be the loss of another lease, on its way to an
      # outer block.
      STORE_FAILURES = [
        UnavailableError, AuthenticationError, PermissionError, ProtocolError, UnsupportedError
      ].freeze

      private_constant :FIBER_MASK, :EXAMINE_BUDGET

      # @return [Hash] for Thread.handle_interrupt. Call it before the way out begins, since this
      #   call can be interrupted.
      def self.mask = Fiber.current_scheduler ? FIBER_MASK : UNINTERRUPTED

      # @api private
      # @param block [Proc, nil] of the call
      # @param share [Share, nil]
      # @return [AcquireOptions] that lacks the keywords of the call
      def new_options(block, share = nil) =
        AcquireOptions.new(config, block, share, unable, store: self)

      # @api private
      # @param store_key [String]
      # @param lease [Lease] that gets the hold
      # @raise [TimeoutError]
      # @raise [UnsupportedError] this fiber would wait for itself
      def acquiring(key, store_key, options, block, lease: nil)
        if options.wait.positive? && OwnHolds.in_the_way?(self, store_key, options.share)
          refuse_to_wait_for_itself(key.inspect, options)
        end
        asking(key, store_key, options, block, lease) do |own|
          raise_timeout(key.inspect, key, store_key, options.wait, own)
        end
      end

      # @api private
      # @return [Object, Lease, nil] nil: others held it until `wait:` ended
      def trying(key, store_key, options, block, lease: nil)
        asking(key, store_key, options, block, lease) { nil }
      end

      # @api private
      # As {Direct#with_lease}, for stores that have no short way.
      #
      # @return [Object] PlainCalls::UNDONE
      def with_lease(*) = PlainCalls::UNDONE

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
        Thread.handle_interrupt(UNINTERRUPTED) do
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

      # @yieldparam token [String, nil] that it waited with, if others held it until `wait:` ended;
      #   the block's value is returned
      def asking(key, store_key, options, block, lease = nil)
        started = Clock.now if Events.listening
        alarm = LossAlarm.for_leases if options.raises?
        lease ||= Lease.new(key, options, alarm)
        taking(lease, lease, options, alarm, block) do
          telling_of_call(started, lease, store_key, options) do
            fill(lease, store_key, options, options.wait)
            # a holder of this key has the same secret: another secret makes another key
            agree if !@agreed && lease.hold
            tell_of_asking(lease, store_key, options, Clock.now - started) if started
            lease.hold
          end
          return yield(lease.waited_with) unless lease.hold
        end
      end

      # @param asking [Float] seconds since the caller began to acquire several keys
      # @return [Object, nil] the hold that the lease has been given
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

      # Acquires for stores written in Ruby, and for APIs that keep the hold themselves.
      #
      # @param given [#call, nil] receives the hold
      # @param undo [#call] releases a possible hold on every way out that does not return it
      # @yieldreturn [Object, nil] nil: it is held by others
      # @return [Object, nil]
      def handing_out(given, undo)
        handed_out = false
        taken = yield or return
        Thread.handle_interrupt(UNINTERRUPTED) do
          given&.call(taken)
          handed_out = true
        end
        taken
      ensure
        # Ruby interrupts at a branch, too: the mask comes before it
        Interrupts.complete { undo.call unless handed_out }
      end
      module_function :handing_out

      # Acquires for a block, or for a caller that releases the lease itself.
      #
      # @param taken [#watch, #finish] a lease or a group of leases
      # @param given [Object] the value for the caller
      # @yield to take them
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
        # added here and removed after the release, to keep the time under the lock short
        OwnHolds.add(self, taken)
        yield
        taken.watch if options.watch?
        taken.given if options.at_least.positive?
        options.used = true # last, since an interrupt before it means that the block has not run
        block.call(given)
      ensure
        Interrupts.complete do
          taken.finish
        ensure
          OwnHolds.delete(taken)
        end
      end

      # A caller may forget a lease without a block; the dispatcher warns of it.
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

      # Tells subscribers of the begin and of the end of a call, whichever way it ends.
      #
      # @param started [Float, nil] on {Clock}; nil: there is no subscriber
      # @param lease [Lease] of the first key
      # @yieldreturn [Object, nil] nil: others held a key until `wait:` ended
      def telling_of_call(started, lease, store_key, options, keys = 1)
        return yield unless started && Events.calls

        mask = Acquisition.mask
        outcome = :failed
        before = $!
        begun = false
        begin
          tell_of_call(:wait_begin, 0.0, lease, store_key, options, keys: keys) { begun = true }
          outcome = yield ? :acquired : :timed_out
        ensure
          error = $!.class.name if outcome == :failed && !$!.equal?(before)
          Thread.handle_interrupt(mask) do
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
      # @param share [Share, nil]
      # @param label [String, nil]
      # @param patience [Float] seconds
      # @param waited [Float] seconds
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

      # Like `examine`, but without this token's place in the queue. In most stores the caller has
      # left the queue by then.
      def examine_others(_own, store_key, shared, budget) = examine(store_key, shared, budget)

      # A message without the holder is better than another error.
      def who_holds(key, store_key, own)
        people = examine_others(own, store_key, Kind.of(store_key).shared?, EXAMINE_BUDGET)
        Status.new(key, store_key, people, node_of(store_key))
      rescue *STORE_FAILURES
        nil
      end
    end
  end
end
