# frozen_string_literal: true

module Support
  # Waiting for what another thread, process or server does, and measuring how long things take.
  module Patience
    # For a promise that says "by X + 50 ms".
    MARGIN = 0.05
    # A single run may be late because the machine was busy elsewhere; a broken promise is late each
    # time.
    TRIES = 8

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Seconds that the block took.
    def elapsed
      start = monotonic
      yield
      monotonic - start
    end

    # Polls until the block returns something true, and returns that; fails at the deadline.
    def eventually(within = 5.0, reason = "the expected state was not reached")
      deadline = monotonic + within
      until (met = yield)
        if monotonic > deadline
          raise RSpec::Expectations::ExpectationNotMetError, "#{reason} (within #{within} s)"
        end

        sleep 0.001
      end
      met
    end

    # The thread stands still: asleep, or waiting in C without the GVL.
    def await_sleep(thread)
      eventually { thread.stop? }
      thread
    end

    # Waits until the lease with which another process holds that lock was renewed: it lasts longer
    # than its ttl, which began before this call.
    def await_renewal(lock, ttl)
      first_end = monotonic + ttl
      eventually(10 * ttl, "the lease is not renewed") do
        asked = monotonic
        lock.status.remaining&.then { |left| asked + left > first_end }
      end
    end

    # The block returns seconds, in the best of TRIES runs at most so many; in none of them fewer
    # than `least`.
    def at_most(seconds, least: 0)
      times = []
      TRIES.times do
        times << yield
        too_bad(times, "less than #{least} s") if times.last < least
        return times.last if times.last <= seconds
      end
      too_bad(times, "each time more than #{seconds} s")
    end

    # The block takes at most `seconds` and never fewer than `least`; its last value is returned.
    def within(seconds, least: 0)
      value = nil
      at_most(seconds, least: least) { elapsed { value = yield } }
      value
    end

    # The block ends by that budget and the margin that every call has.
    def within_budget(seconds, least: 0, &block) = within(seconds + MARGIN, least: least, &block)

    # The block ends when that patience does: not before it, and not later than the budget.
    def for_as_long_as(seconds, &block) = within_budget(seconds, least: seconds, &block)

    private

    def too_bad(times, what)
      raise RSpec::Expectations::ExpectationNotMetError,
            "took #{times.map { |t| format("%.3f", t) }.join(", ")} s, #{what}"
    end
  end
end
