# frozen_string_literal: true

require "securerandom"
require "support/busy_ruby"

module Support
  # Shared by the examples of the contract. Each has a store and a key.
  module StoreContract
    # Seconds, more than nearly any example takes: nothing goes away by expiring.
    LONG = Integer(Supervisor::EXAMPLE_DEADLINE) / 4
    SHORT = 0.15 # seconds of a ttl that is to run out

    # A loss that is told, is told within this time. A busy machine may need longer, but not nearly
    # as long as a LONG lease takes to its first renewal.
    NEWS = 0.5
    LATE_NEWS = 5.0

    # A status of a cluster also names the node.
    AT_NODE = /(, at node \S+)?/

    # A thread of Ruby that renews needs longer where the machine is busy.
    def short = store.can?(:busy_renewal) ? SHORT : 4 * SHORT

    # A ttl that renewals keep alive, also where the machine keeps what renews, or the server that
    # it asks, from running for a while.
    def renewed = store.can?(:busy_renewal) ? 0.6 : 3.0

    # A wait that does not end before another waiter is in the queue.
    def a_while = store.can?(:busy_renewal) ? 1.0 : 3.0

    # Waits until a lease has outlived its end by half its ttl: one renewal does not get it there.
    def outlive(ended_at, ttl = renewed)
      eventually(2 * ttl + LATE_NEWS) { Plock::Clock.now > ended_at + (ttl / 2) }
    end

    # A lease that is released after the example, at the latest.
    def hold(key = self.key, **options) = kept(store.acquire(key, **options))

    def kept(lease) = discard(lease, :release)

    # Of a key, or of a lock that tells its own.
    def status_of(lock) = lock.respond_to?(:status) ? lock.status : store.status(lock)

    # Waits until so many wait for the key.
    def await_waiters(count, lock = key)
      eventually(20.0, "there are not #{count} waiters") { status_of(lock).waiters.size == count }
    end

    # A thread that runs the block, and is the so many-th in line when this returns.
    def wait_in_line(place, lock = key, &block)
      thread = background(&block)
      await_waiters(place, lock)
      thread
    end

    # Threads that begin to wait one after the other, the next one when the one before is in line.
    # Each does what the block does with its number and its lease, inside.
    def line_up(count, key: self.key, **options, &block)
      Array.new(count) do |number|
        wait_in_line(number + 1, key) do
          store.acquire(key, ttl: LONG, wait: LONG, **options) { |lease| block.call(number, lease) }
        end
      end
    end

    # A thread that stays inside its block until something is pushed to the queue that it is
    # returned with.
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

    # Runs the block, and interrupts it at the return from the so many-th method or block of plock's
    # Ruby, or of what that calls: there Ruby looks for interrupts. Assignments, which Ruby traces
    # too, it does not interrupt, nor itself as it raises: there it asks for a backtrace, and an
    # interrupt would end the process ("exception reentered"). @interrupted_in says where it was.
    #
    # @param by_signal [Boolean] does the interrupt come as from a signal handler, which no mask
    #   defers?
    # Was it interrupted?
    def interrupted_at(step, by_signal: false)
      thread = Thread.current
      events = by_signal ? %i[return b_return] : %i[return b_return c_return]
      steps = TracePoint.new(*events) do |point|
        next unless Thread.current == thread && point.path.include?("/lib/plock/")
        if point.event == :c_return &&
           (point.method_id.end_with?("=") || point.method_id == :backtrace)
          next
        end

        next unless (step -= 1).zero?

        @interrupted_in = [point.defined_class, point.method_id, point.event]
        by_signal ? raise(Interrupt) : thread.raise(Interrupt)
      end
      steps.enable { yield }
      false
    rescue Interrupt
      true
    end

    # Interrupts the block at one step after the other, until it gets through, and runs the check
    # after each. If several stores run the same Ruby, each on a server of its own, they share the
    # steps: `share_of_steps` is a store's first step, and the distance to its next one.
    def interrupted_everywhere(block, least: 10, by_signal: false, &check)
      check.call # all that is needed is made before
      first, stride = respond_to?(:share_of_steps) ? share_of_steps : [1, 1]
      steps = (first..5_000).step(stride).find do |step|
        GC.disable if by_signal # it would release what is left behind
        interrupted = interrupted_at(step, by_signal: by_signal, &block)
        check.call
        GC.enable
        !interrupted
      end
      expect(steps).to be > least
    ensure
      GC.enable
    end

    def free?(lock = key) = !status_of(lock).held?

    # The store may take a waiter that gave up out of the queue in the background.
    def expect_no_waiters(lock = key)
      eventually(LATE_NEWS, "a waiter is still in the queue") { status_of(lock).waiters.empty? }
    end

    def expect_free(lock = key)
      expect_no_waiters(lock)
      expect(free?(lock)).to be(true)
    end

    # Takes over the remains of an interrupted adoption, if it had not begun. The store gives a
    # lease that it acquired back a moment later.
    def adopt_unless_freed(dump)
      store.adopt(dump) { nil } unless free?
      expect_free
    rescue Plock::LeaseLost
      expect_nobody
    end

    # The same, if that adoption may have been the store's last one.
    def adopt_again(dump)
      store.adopt(dump) { nil }
    rescue Plock::LeaseLost
      nil # it is being released
    end

    # After an interrupt or a timeout the store may clean up a moment later.
    def expect_nobody(lock = key)
      eventually(LATE_NEWS, "a lease is left behind") do
        status_of(lock).then { |status| !status.held? && status.waiters.empty? }
      end
    end

    # The events of this example's key, as long as the block runs.
    def events_of(pattern = nil)
      digest = store.status(key).store_key.delete("{}")[-64..]
      heard = Queue.new
      subscription =
        Plock.subscribe(pattern) { |event| heard << event if event.key_digest == digest }
      yield heard
      Array.new(heard.size) { heard.pop }
    ensure
      Plock.unsubscribe(subscription)
    end
  end
end
