# frozen_string_literal: true

Bench.contestant "redis-mutex", label: "redis-mutex", role: :peer, gems: %w[redis-mutex redis redis-client] do |server|
  require "redis"
  require "redis-namespace"
  require "redis-mutex"

  RedisClassy.redis = Redis.new(url: server.url(:tcp))
  -> { RedisMutex.with_lock("bench:redis-mutex", block: 2, expire: 10) { :held } }
end
