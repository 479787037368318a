# frozen_string_literal: true

require_relative "../clock"
require_relative "../dispatcher"
require_relative "../errors"
require_relative "../events"
require_relative "../lease"
require_relative "../status"
require_relative "arguments"

module Plock
  module Locking
    # From the terms to the lease, and back. What is taken is in the lease before anything can interrupt, so that one place gives
    # it back.
    #
    # A store hands out its hold by returning it, and one that is written in Ruby besides by yielding it as soon as it is granted:
    # the return from a method in Ruby can be interrupted, from one in C it cannot.
    #
    # @api private
    module Taking
      # What may interrupt the way out: nothing. Under a Fiber scheduler nothing is masked, for masks belong to threads, and
      # fibers that take turns would take off one another's.
      THREAD_MASK = { Object => :never }.freeze
      FIBER_MASK = {}.freeze

      # Seconds that a TimeoutError may be held up to learn who has the key.
      EXAMINE_BUDGET = 0.03

      private_constant :THREAD_MASK, :FIBER_MASK, :EXAMINE_BUDGET

      private

      # @yieldparam store_key [String] where others held it until patience ended; its value is the answer
      def asking(key, terms, patience, block)
        store_key = profile.store_key(Arguments.key(key))
        started = Clock.now if Events.listening
        taking(terms, block) do |lease|
          lease.hold = take(store_key, terms.ttl, patience, terms.renew, terms.max_hold, terms.label, terms.watch?, nil) do |granted|
            lease.hold = granted
          end
          tell_of_asking(lease, store_key, Clock.now - started, patience) if started
          return yield(store_key) unless lease.hold
        end
      end

      # @yieldparam lease [Lease] is to be given its hold
      def taking(terms, block, &take)
        lease = Lease.new(terms)
        alarm = lease.alarm
        if block.nil? then keep(lease, terms, &take)
        elsif alarm then alarm.around { use(lease, terms, -> (given) { alarm.hearing { block.call(given) } }, &take) }
        else use(lease, terms, block, &take)
        end
      end

      def use(lease, terms, block)
        mask = Fiber.current_scheduler ? FIBER_MASK : THREAD_MASK
        begin
          yield lease
          lease.watch if terms.watch?
          block.call(lease)
        ensure
          Thread.handle_interrupt(mask) { lease.finish }
        end
      end

      # Whoever gets a lease without a block may forget it, and is to hear of that.
      def keep(lease, terms)
        Dispatcher.start
        kept = false
        yield lease
        lease.watch if terms.watch?
        kept = true
        lease
      ensure
        lease.finish unless kept
      end

      def tell_of_asking(lease, store_key, waited, patience)
        hold = lease.hold
        Events.tell(:contended, waited, store_key, lease.label) if hold.nil? || hold.contended?
        if hold then lease.tell(:acquire, waited, ttl: hold.ttl)
        else Events.tell(:timeout, waited, store_key, lease.label, wait: patience)
        end
      end

      def raise_timeout(key, store_key, patience)
        status = who_holds(key, store_key)
        message = "could not acquire #{key.inspect} within #{patience} s"
        raise TimeoutError.new(status&.held? ? "#{message}: #{status}" : message, code: :timed_out, status: status)
      end

      # What is missing in a message is no reason for another error.
      def who_holds(key, store_key)
        Status.new(key, store_key, examine(store_key, EXAMINE_BUDGET))
      rescue Error
        nil
      end
    end
  end
end
