# frozen_string_literal: true

require "async"
require "securerandom"

module Support
  # What the examples of the contract have in common. Each has a store and a key.
  module StoreContract
    LONG = 30 # seconds, more than any example takes: nothing goes away by expiring
    SHORT = 0.15 # seconds of a ttl that is to run out

    # A loss that is told, is told within this time.
    NEWS = 0.5

    # A lease that is released after the example, at the latest.
    def hold(key = self.key, **options) = discard(store.acquire(key, **options), :release)

    # Waits until so many wait for the key.
    def await_waiters(count, key = self.key)
      eventually(5.0, "there are not #{count} waiters") { store.status(key).waiters.size == count }
    end

    # Threads that begin to wait one after the other, the next one when the one before is in line. Each does what the block does with
    # its number and its lease, inside.
    def line_up(count, key: self.key, **options, &block)
      Array.new(count) do |number|
        thread = background { store.acquire(key, ttl: LONG, wait: LONG, **options) { |lease| block.call(number, lease) } }
        await_waiters(number + 1)
        thread
      end
    end

    # A thread that stays inside its block until something is pushed to the queue that it is returned with.
    def holder(**options)
      inside = Queue.new
      leave = Queue.new
      thread = background do
        store.acquire(key, ttl: LONG, wait: LONG, **options) do |lease|
          inside << lease
          leave.pop
        end
      end
      [thread, inside.pop, leave]
    end

    # Comes to this thread as from another one.
    class Interrupt < StandardError; end

    # Runs the block, and interrupts it at the return from the so many-th method or block of plock's Ruby: there Ruby looks for
    # interrupts. Was it interrupted?
    def interrupted_at(step)
      thread = Thread.current
      steps = TracePoint.new(:return, :b_return) do |point|
        next unless Thread.current == thread && point.path.include?("/lib/plock/")

        thread.raise(Interrupt) if (step -= 1).zero?
      end
      steps.enable { yield }
      false
    rescue Interrupt
      true
    end

    def free?(key = self.key) = !store.status(key).held?

    def expect_free(key = self.key) = expect(free?(key)).to be(true)

    # Where somebody was interrupted, the store may see to what he left a moment later.
    def expect_nobody(key = self.key)
      eventually(2.0, "somebody was left behind") { store.status(key).then { |status| !status.held? && status.waiters.empty? } }
    end

    # The events of this example's key, as long as the block runs.
    def events_of(pattern = nil)
      digest = Plock::Status.new(nil, store.status(key).store_key, nil).store_key[-64..]
      heard = Queue.new
      subscription = Plock.subscribe(pattern) { |event| heard << event if event.key_digest == digest }
      yield heard
      Array.new(heard.size) { heard.pop }
    ensure
      Plock.unsubscribe(subscription)
    end
  end
end
