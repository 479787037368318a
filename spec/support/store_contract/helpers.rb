# frozen_string_literal: true

require "securerandom"
require "support/busy_ruby"

module Support
  # Helpers for the examples of the contract. Each example has a store and a key.
  module StoreContract
    # In seconds. Longer than nearly all examples take, so that no lease expires during an example.
    LONG = Integer(Supervisor::EXAMPLE_DEADLINE) / 4
    SHORT = 0.15 # seconds of a ttl that must expire during the example

    # A loss is reported within this time. LATE_NEWS is for busy machines, and is still much
    # shorter than the time until the first renewal of a LONG lease.
    NEWS = 0.5
    LATE_NEWS = 5.0

    # On a cluster, the text of a status also names the node.
    AT_NODE = /(, at node \S+)?/

    # If a Ruby thread renews the leases, it needs more time on a busy machine.
    def short = store.can?(:busy_renewal) ? SHORT : 4 * SHORT

    # A ttl that is long enough for timely renewals, even if a busy machine delays the renewing
    # thread or the server for a while.
    def renewed = store.can?(:busy_renewal) ? 0.6 : 3.0

    # A value of wait: that is long enough for another waiter to enter the queue.
    def a_while = store.can?(:busy_renewal) ? 1.0 : 3.0

    # Waits until half a ttl after `ended_at`, which is the lease's end without renewals. One
    # renewal extends the lease by a third of the ttl. So a lease that is still valid after this
    # wait has been renewed more than once.
    def outlive(ended_at, ttl = renewed)
      eventually(2 * ttl + LATE_NEWS) { Plock::Clock.now > ended_at + (ttl / 2) }
    end

    # A lease that is released after the example, unless the example has released it.
    def hold(key = self.key, **options) = kept(store.acquire(key, **options))

    def kept(lease) = discard(lease, :release)

    # The status of a key, or of a lock object that has its own status method.
    def status_of(lock) = lock.respond_to?(:status) ? lock.status : store.status(lock)

    # Waits until the key has this many waiters.
    def await_waiters(count, lock = key)
      eventually(20.0, "there are not #{count} waiters") { status_of(lock).waiters.size == count }
    end

    # Starts a thread that runs the block. Returns once the thread has this place in the queue.
    def wait_in_line(place, lock = key, &block)
      thread = background(&block)
      await_waiters(place, lock)
      thread
    end

    # Starts threads that enter the queue one after another. Each thread starts when the previous
    # one is in the queue. When a thread has the lock, it calls the block with its number and its
    # lease.
    def line_up(count, key: self.key, **options, &block)
      Array.new(count) do |number|
        wait_in_line(number + 1, key) do
          store.acquire(key, ttl: LONG, wait: LONG, **options) { |lease| block.call(number, lease) }
        end
      end
    end

    # Starts a thread that holds the lock until the example pushes something to the returned queue.
    # Returns the thread, its lease and that queue.
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

    # Raised in this thread as if another thread had raised it.
    class Interrupt < StandardError; end

    # Raised by a signal handler, as Ruby's own Interrupt is.
    class Signalled < Exception; end # rubocop:disable Lint/InheritException

    # Runs the block, and interrupts it once. `step` counts the points at which Ruby checks for
    # interrupts: each return from a method or block of plock's Ruby, or from a C method that it
    # calls. Assignments are left out, because Ruby traces them as methods, but does not check for
    # interrupts there. `backtrace` is left out, because raising calls it, and an interrupt would
    # end the process ("exception reentered"). @interrupted_in says where the block was interrupted.
    #
    # @param by_signal [Boolean] raise as a signal handler does, so that no mask defers the
    #   interrupt?
    # @return [Boolean] was the block interrupted?
    def interrupted_at(step, by_signal: false)
      trace_steps
      @interrupted = { thread: Thread.current, by_signal: by_signal }
      @steps_left = step
      yield
      false
    rescue Interrupt, Signalled
      true
    ensure
      @steps_left = nil
    end

    # The trace point stays enabled until the example ends, because Ruby walks the whole heap each
    # time a trace point is enabled.
    def trace_steps
      @trace_steps ||= discard(
        TracePoint.new(:return, :b_return, :c_return) { |point| at_point(point) }.tap(&:enable),
        :disable
      )
    end

    def at_point(point)
      return unless @steps_left && @interrupted[:thread] == Thread.current
      return unless point.path.include?("/lib/plock/")
      return if point.event == :c_return &&
                (point.method_id.end_with?("=") || point.method_id == :backtrace)
      return unless (@steps_left -= 1).zero?
      return @steps_left = 1 if loading?(point)

      @interrupted_in = [point.defined_class, point.method_id, point.event]
      @interrupted[:by_signal] ? raise(Signalled) : Thread.current.raise(Interrupt)
    end

    # A file whose loading is cut off would be loaded again, and warn of its constants. An autoload
    # that is cut off leaves its constant undefined.
    def loading?(point)
      point.method_id == :require ||
        caller.grep(/in ['`](Kernel#)?(require|require_relative|const_get)'/).any?
    end

    # Interrupts the block at one step after another, until a run ends without an interrupt. Runs
    # the check after each run. Stores that run the same Ruby code on different servers share the
    # steps. `share_of_steps` is a store's first step and the distance to its next step.
    def interrupted_everywhere(block, least: 10, by_signal: false, &check)
      check.call # before the first interrupt, makes everything that the block needs
      first, stride = respond_to?(:share_of_steps) ? share_of_steps : [1, 1]
      stride *= signals_apart if by_signal && respond_to?(:signals_apart)
      steps = (first..5_000).step(stride).find do |step|
        GC.disable if by_signal # the garbage collector would release leases that are left behind
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

    # The store may remove a waiter in the background, after the waiter has given up.
    def expect_no_waiters(lock = key)
      eventually(LATE_NEWS, "a waiter is still in the queue") { status_of(lock).waiters.empty? }
    end

    def expect_free(lock = key)
      expect_no_waiters(lock)
      expect(free?(lock)).to be(true)
    end

    # Adopts the dump if the interrupted adoption did not begin. If the interrupted adoption did
    # begin, the store releases its lease, perhaps a moment later.
    def adopt_unless_freed(dump)
      store.adopt(dump) { nil } unless free?
      expect_free
    rescue Plock::LeaseLost
      expect_nobody
    end

    # Adopts the dump again. If the interrupted adoption took effect, this raises LeaseLost.
    def adopt_again(dump)
      store.adopt(dump) { nil }
    rescue Plock::LeaseLost
      nil # the store releases the adopted lease
    end

    # After an interrupt or a timeout, the store may need a moment to clean up.
    def expect_nobody(lock = key)
      eventually(LATE_NEWS, "a lease is left behind") do
        status_of(lock).then { |status| !status.held? && status.waiters.empty? }
      end
    end

    # The events of this example's key that occur while the block runs.
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
