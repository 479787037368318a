# frozen_string_literal: true

# The algorithm of the older Parse::Lock, rewritten: SET NX EX through the redis gem, an EVAL with
# the whole script at each release, and a poll every 35 to 65 ms while the lock is held.
module Bench
  class OlderLock
    PREFIX = "parse-stack:lock:v1:"
    POLL = 0.05
    JITTER = 0.015
    RELEASE = <<~LUA
      if redis.call("get", KEYS[1]) == ARGV[1] then
        return redis.call("del", KEYS[1])
      else
        return 0
      end
    LUA

    def self.connect(server)
      require "openssl"
      require "redis"
      require "securerandom"
      new(Redis.new(url: server.url(:tcp)), SECRET)
    end

    def initialize(redis, secret)
      @redis = redis
      @secret = secret
    end

    def acquire(key, ttl:, wait:)
      store_key = PREFIX + OpenSSL::HMAC.hexdigest("SHA256", @secret, key)
      owner = SecureRandom.uuid
      await(store_key, owner, ttl, wait)
      begin
        yield owner
      ensure
        @redis.eval(RELEASE, keys: [store_key], argv: [owner])
      end
    end

    private

    def await(store_key, owner, ttl, wait)
      deadline = clock + wait
      until @redis.set(store_key, owner, ex: ttl, nx: true)
        raise Failed, "not acquired within #{wait}s" if clock >= deadline

        sleep(POLL + (((rand * 2) - 1) * JITTER))
      end
    end

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

Bench.contestant "older",
                 label: "older Parse::Lock",
                 role: :peer,
                 gems: %w[redis redis-client] do |server|
  lock = Bench::OlderLock.connect(server)
  -> { lock.acquire("bench:older", ttl: 10, wait: 2.0) { :held } }
end

Bench.contender "older" do |server|
  -> do
    lock = Bench::OlderLock.connect(server)
    ->(key, section) { lock.acquire(key, ttl: Bench::TTL, wait: Bench::WAIT, &section) }
  end
end
