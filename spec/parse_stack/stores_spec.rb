# frozen_string_literal: true

require "spec_helper"
require "redis-client"
require_relative "parse_stack_context"

RSpec.describe "plock/parse_stack in the store of the gem" do
  include_context "with parse-stack-next"

  let(:key) { "key #{SecureRandom.hex(8)}" }
  let(:store_key) { "parse-stack:lock:v1:#{OpenSSL::HMAC.hexdigest("SHA256", secret, key)}" }

  # The key in the database while the lock is held, as the gem's own client reads it.
  def seen(cache)
    told(<<~RUBY, cache: cache).lines(chomp: true)
      redis = Parse.cache.then { |cache|
        cache.instance_variable_get(:@pool).pool.with { |store| store.adapter.backend }
      }
      Parse::Lock.acquire(#{key.inspect}, wait: 0) { |token|
        puts redis.get(#{store_key.inspect}) == token, Parse.cache.class
      }
      puts redis.get(#{store_key.inspect}).nil?
    RUBY
  end

  it "locks where its cache of Redis is, in its database" do
    expect(seen(cache)).to eq(%w[true Parse::Cache::Redis true])
    expect(
      seen("Parse::Cache::Redis.new(url: #{shared_redis.url.inspect}, db: 5, namespace: 'app')")
    ).to eq(%w[true Parse::Cache::Redis true])
  end

  it "locks there with the cache's password" do
    server = redis_server(:password)
    address = server.url(password: Support::RedisServer::PASSWORD)
    expect(seen("Parse::Cache::Redis.new(url: #{address.inspect})")).to eq(
      %w[true Parse::Cache::Redis true]
    )
  end

  it "locks there over TLS, with the cache's certificates" do
    server = redis_server(:tls, client_auth: true)
    client = Support::Certificates.client
    files = {
      ca_file: Support::Certificates.ca.cert_file, cert: client.cert_file, key: client.key_file
    }
    cache = "Parse::Cache::Redis.new(url: #{server.url(host: "localhost").inspect}, " \
            "db: 1, ssl_params: #{files.inspect})"
    expect(seen(cache)).to eq(%w[true Parse::Cache::Redis true])
  end

  it "locks through one application's view of a shared cache" do
    expect(told(<<~RUBY)).to eq("true\n")
      backend = #{cache}
      keyspace = Parse::Cache::Keyspace.new(app_id: "app", namespace: "app")
      Parse.synchronize_create_store = backend.scoped(keyspace)
      Parse::Lock.acquire(#{key.inspect}, wait: 0) {
        puts backend.lock_acquire(#{store_key.inspect}, "other", 1) == false
      }
    RUBY
  end

  # In this program, `Object` inside module Parse means Parse::Object.
  it "locks in a store of the application's own, which is not taken for none" do
    expect(told(<<~RUBY)).to eq("true\n")
      store = Class.new do
        attr_reader :owner

        def lock_acquire(_key, owner, _ttl) = @owner.nil? && (@owner = owner) && true
        def lock_release(_key, owner) = @owner == owner && (@owner = nil).nil?
      end.new
      Parse.synchronize_create_store = store
      Parse::Lock.acquire(#{key.inspect}, wait: 0) { |token| puts store.owner == token }
    RUBY
  end
end
