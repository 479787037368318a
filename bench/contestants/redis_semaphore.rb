# frozen_string_literal: true

# The gem waits in BLPOP, so each thread needs its own connection. It waits forever, because its
# timeouts do not work with version 5 of the redis gem. Its lock has no TTL, so a lock whose holder
# died stays taken.
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

    # Returns the block's value. The gem's #lock returns the token instead.
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
