# frozen_string_literal: true

require "connection_pool"
require "openssl"
require "parse/lock"
require "redis"
require "securerandom"

# An application that has required "parse/lock" and configured a secret. Its store is the shared
# server, unless the example changes that. After the example, its configuration and locks are
# removed.
RSpec.shared_context "with Parse" do
  let(:secret) { "the secret of all processes" }
  let(:key) { "key #{SecureRandom.hex(8)}" }
  # Computed without plock.
  let(:store_key) { "parse-stack:lock:v1:#{OpenSSL::HMAC.hexdigest("SHA256", secret, key)}" }
  let(:uuid) { /\A\h{8}-\h{4}-4\h{3}-[89ab]\h{3}-\h{12}\z/ }

  around do |example|
    before = ENV.fetch("PARSE_STACK_LOCK_SECRET", nil)
    ENV["PARSE_STACK_LOCK_SECRET"] = secret
    example.run
  ensure
    ENV["PARSE_STACK_LOCK_SECRET"] = before
    Parse.synchronize_create_store = nil
    Parse.synchronize_create_secret = nil
    Parse::Lock.reset!
  end

  def use_redis
    Parse.synchronize_create_store = shared_redis.unix_url
  end

  def acquire(...) = Parse::Lock.acquire(key, ...)

  # Writes the lock into Redis as a process of the older implementation does.
  def held_by_another(ttl: 30)
    shared_redis.call("SET", store_key, SecureRandom.uuid, "EX", ttl, "NX")
    discard(-> { shared_redis.call("DEL", store_key) }, :call)
  end

  # Runs the block on eight threads, and passes it a lambda, the visit. Returns the highest number
  # of threads that were in the visit at the same time.
  def most_inside
    inside = most = 0
    visit = ->(_token) do
      most = [most, inside += 1].max
      Thread.pass
      inside -= 1
    end
    Array.new(8) { background { yield visit } }.each(&:join)
    most
  end

  def held? = shared_redis.call("EXISTS", store_key) == 1
end
