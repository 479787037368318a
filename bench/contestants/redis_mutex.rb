# frozen_string_literal: true

module Bench
  module Mutexes
    def self.connect(server)
      require "redis"
      require "redis-namespace"
      require "redis-mutex"

      RedisClassy.redis = Redis.new(url: server.url(:tcp))
    end
  end
end

Bench.contestant "redis-mutex",
                 label: "redis-mutex",
                 role: :peer,
                 gems: %w[redis-mutex redis redis-client] do |server|
  Bench::Mutexes.connect(server)
  -> { RedisMutex.with_lock("bench:redis-mutex", block: 2, expire: 10) { :held } }
end

# Polls every 100 ms, the gem's default. All threads of a process share one connection, because
# the gem supports no other way.
Bench.contender "redis-mutex" do |server|
  Bench::Mutexes.connect(server)
  -> do
    ->(key, section) { RedisMutex.with_lock(key, block: Bench::WAIT, expire: Bench::TTL, &section) }
  end
end
