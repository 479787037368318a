# frozen_string_literal: true

# Waits in BLPOP, so each thread needs its own connection. It waits forever (its timeouts do not
# reach redis 5), and its lock has no TTL: when a holder dies, no caller can acquire it again.
module Bench
  class SemaphoreLock
    def self.connect(server, **options)
      require "redis-semaphore"
      new(Redis.new(url: server.url(:tcp)), **options)
    end

    def initialize(redis, **options)
      @semaphores =
        Hash.new { |all, key| all[key] = Redis::Semaphore.new(key, redis: redis, **options) }
    end

    # Its lock returns the token, not the block's value.
    def acquire(key)
      value = nil
      @semaphores[key].lock { value = yield }
      value
    end
  end
end

Bench.contestant "redis-semaphore",
                 label: "redis-semaphore",
                 role: :peer,
                 gems: %w[redis-semaphore redis redis-client] do |server|
  lock = Bench::SemaphoreLock.connect(server)
  -> { lock.acquire("bench:redis-semaphore") { :held } }
end

Bench.contender "redis-semaphore" do |server|
  -> do
    lock = Bench::SemaphoreLock.connect(server)
    ->(key, section) { lock.acquire(key, &section) }
  end
end
