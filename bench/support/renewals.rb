# frozen_string_literal: true

require_relative "bench"

module Bench
  # Leases of one process that plock renews.
  class Renewals
    PERIOD = TTL * 1_000_000_000 / 3 # plock renews after a third of the TTL

    def initialize(store, count)
      @leases = Array.new(count) { |i| store.acquire("bench:renewed:#{i}", ttl: TTL, renew: true) }
    end

    # Returns the nanoseconds of CPU time that the process uses in this many seconds. Subscribes to
    # no events, because a subscriber would also use CPU time.
    def cpu(seconds)
      before = spent
      sleep(seconds)
      spent - before
    end

    # Returns how late each renewal was, as sorted nanoseconds. A renewal is due one period after
    # the previous one.
    def late(seconds)
      last = {}
      late = Queue.new
      subscription = Plock.subscribe(:renew) do |event|
        now = Bench.now
        before = last[event.key_digest]
        late << now - before - PERIOD if before
        last[event.key_digest] = now
      end
      sleep(seconds)
      Plock.unsubscribe(subscription)
      Array.new(late.size) { late.pop }.sort
    end

    def release = @leases.each(&:release)

    private

    def spent = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
  end
end
