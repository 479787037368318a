# frozen_string_literal: true

require "moneta"
require "openssl"
require "redis"
require "securerandom"

# The lock as processes of the older implementation use it. They ask again about every 50 ms, and
# release the lock with EVAL.
class OlderLock
  COMPARE_AND_DELETE =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
  INTERVAL = (0.035..0.065).freeze

  def initialize(path)
    @redis = Redis.new(path: path)
  end

  def self.store_key(key, secret)
    "parse-stack:lock:v1:#{OpenSSL::HMAC.hexdigest("SHA256", secret, key)}"
  end

  # Returns the block's value, or nil if the lock did not become free in time.
  def hold(store_key, ttl: 3, wait: 2.0)
    token = SecureRandom.uuid
    deadline = now + wait
    until take(store_key, token, ttl)
      return if now >= deadline

      sleep rand(INTERVAL)
    end
    begin
      yield token
    ensure
      give_back(store_key, token)
    end
  end

  private

  def take(store_key, token, ttl) = @redis.set(store_key, token, ex: ttl, nx: true)

  def give_back(store_key, token) =
    @redis.eval(COMPARE_AND_DELETE, keys: [store_key], argv: [token])

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # The older lock through Moneta, which stores values in Marshal's format.
  class ThroughMoneta < OlderLock
    def initialize(path)
      @moneta = Moneta.new(:Redis, path: path)
    end

    private

    def take(store_key, token, ttl)
      @moneta.key?(store_key)
      @moneta.create(store_key, token, expires: ttl)
    end

    def give_back(store_key, token)
      @moneta.delete(store_key) if @moneta[store_key] == token
    end
  end
end
