# frozen_string_literal: true

module Support
  # Waits for actions of other threads, processes or servers, and measures how long calls take.
  module Patience
    # The margin of promises such as "returns by X + 50 ms".
    MARGIN = 0.05
    # Attempts before a time limit counts as broken. One run may be late because the machine was
    # busy. If a promise is broken, every run is late.
    TRIES = 8

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Seconds that the block took.
    def elapsed
      start = monotonic
      yield
      monotonic - start
    end

    # Polls until the block returns a true value, and returns that value. Fails at the deadline.
    #
    # @param reason [String, #call] what the failure says; a callable is asked at the deadline
    def eventually(within = 5.0, reason = "the expected state was not reached")
      deadline = monotonic + within
      until (met = yield)
        if monotonic > deadline
          reason = reason.call if reason.respond_to?(:call)
          raise RSpec::Expectations::ExpectationNotMetError, "#{reason} (within #{within} s)"
        end

        sleep 0.001
      end
      met
    end

    # Waits until the thread sleeps, in Ruby or in C without the GVL.
    def await_sleep(thread)
      eventually { thread.stop? }
      thread
    end

    # Waits until another process has renewed its lease on this lock. The lease began before this
    # call. So if it lasts until more than a ttl from now, it has been renewed.
    def await_renewal(lock, ttl)
      first_end = monotonic + ttl
      eventually(10 * ttl, "the lease is not renewed") do
        asked = monotonic
        lock.status.remaining&.then { |left| asked + left > first_end }
      end
    end

    # Expects that the best of TRIES runs of the block returns at most `seconds`, and that no run
    # returns less than `least`.
    def at_most(seconds, least: 0)
      times = []
      TRIES.times do
        times << yield
        too_bad(times, "less than #{least} s") if times.last < least
        return times.last if times.last <= seconds
      end
      too_bad(times, "each time more than #{seconds} s")
    end

    # Expects that the block takes at most `seconds` in the best run, and never less than `least`.
    # Returns the block's last value.
    def within(seconds, least: 0)
      value = nil
      at_most(seconds, least: least) { elapsed { value = yield } }
      value
    end

    # Expects that the block ends within the budget, plus the margin that every call has.
    def within_budget(seconds, least: 0, &block) = within(seconds + MARGIN, least: least, &block)

    # Expects that the block takes this long: no less, and at most the usual margin more.
    def for_as_long_as(seconds, &block) = within_budget(seconds, least: seconds, &block)

    private

    def too_bad(times, what)
      raise RSpec::Expectations::ExpectationNotMetError,
            "took #{times.map { |t| format("%.3f", t) }.join(", ")} s, #{what}"
    end
  end
end
