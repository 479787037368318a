# frozen_string_literal: true

require "spec_helper"
require "support/sentinels"

# Errors about wrong addresses of sentinels, and the addresses of clients that use sentinels.
RSpec.describe "The address of sentinels", needs: Support::RedisServer::PROGRAM do
  let(:sentinel) do
    redis_server(:sentinel, monitor: ["main", "127.0.0.1", shared_redis.port.to_s, "1"])
  end
  let(:place) { "127.0.0.1:#{sentinel.port}" }

  # The address of a server that accepts connections, but never answers.
  def silent = "127.0.0.1:#{discard(TCPServer.new("127.0.0.1", 0), :close).local_address.ip_port}"

  def failure(url, wait: 0.5, **options)
    open_store(url, **options).acquire("k:#{SecureRandom.hex(4)}", wait:) { nil }
  rescue Plock::Error => e
    e
  end

  it "leads to the primary" do
    store = open_store("redis+sentinel://#{place}/main/3")
    lease = store.try_acquire("k:#{SecureRandom.hex(4)}", ttl: 5)
    expect(lease).to be_valid
    shared = RedisClient.new(port: shared_redis.port, db: 3)
    expect(shared.call("EXISTS", store.status(lease.key).store_key)).to eq(1)
    lease.release
    expect(store.url).to eq("redis+sentinel://#{place}/main/3")
  end

  it "ends with the primary's name, before the number of a database" do
    {
      "main" => "main", "main/3" => "main", "5" => "5", "5/0" => "5", "h%C3%A9" => "hé",
      "a%3Fb/2" => "a?b"
    }.each do |path, name|
      expect(open_store("redis+sentinel://s1/#{path}").primary_name).to eq(name)
    end
    expect(open_store("redis-sentinel://s1/2?sentinelMasterId=7").primary_name).to eq("7")
    expect(open_store("redis://s1/2").primary_name).to be_nil
  end

  it "with a name that they do not know is a mistake in the configuration" do
    expect(failure("redis+sentinel://#{place}/other")).to be_a(Plock::ConfigurationError).and(
      have_attributes(message: /no primary named other/)
    )
  end

  # With `wait: 0`, the call ends while the store still waits for the silent sentinel. With
  # `wait: 3`, it gives up after `unavailable_timeout`, which ends before `connect_timeout` here.
  # The errors must report the mistake nevertheless.
  it "with a name that most of them do not know is a mistake, even if another is silent",
     :timing do
    other = redis_server(:sentinel, monitor: ["main", "127.0.0.1", shared_redis.port.to_s, "1"])
    url = "redis+sentinel://#{silent},#{place},127.0.0.1:#{other.port}/other"
    [0, 0.5, 3].each do |wait|
      error = failure(url, wait:, attempt_timeout: 1, connect_timeout: 2)
      expect([error.class, error.message]).to match(
        [Plock::ConfigurationError, /no primary named other/]
      )
    end
  end

  it "asks for TLS at sentinels that may not speak it" do
    expect(failure("rediss+sentinel://#{silent}/main", wait: 0)).to have_attributes(
      class: Plock::UnavailableError,
      message: Regexp.new(
        ": (none of the sentinels that were asked answered|the sentinels named no primary) " \
        'in time: do they speak TLS\?\z'
      )
    )
  end

  it "at which a Redis answers is a mistake in the configuration" do
    error = failure("redis+sentinel://127.0.0.1:#{shared_redis.port}/main")
    expect(error).to be_a(Plock::ConfigurationError)
    expect(error.message).to match(/127\.0\.0\.1:#{shared_redis.port}.*no sentinel/)
  end

  it "in the place of a server is told by name" do
    error = failure("redis://#{place}")
    expect(error).to be_a(Plock::UnsupportedError)
    expect(error.message).to match(%r{use redis\+sentinel://host:port/NAME})
  end

  it "without a process that answers is unavailable, within the time of the call", :timing do
    error = nil
    took = elapsed { error = failure("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main") }
    expect(error).to be_a(Plock::UnavailableError)
    expect(error.message).to match(/the sentinel 127\.0\.0\.1:1/)
    expect(took).to be < 2.0
  end

  it "has credentials of its own" do
    guarded = redis_server(
      :sentinel, monitor: ["main", "127.0.0.1", shared_redis.port.to_s, "1"],
                 config: { "requirepass" => "sesame" }
    )
    url = "redis+sentinel://127.0.0.1:#{guarded.port}/main"
    expect(failure(url)).to be_a(Plock::AuthenticationError)
    expect(failure(url, sentinel_password: "wrong")).to be_a(Plock::AuthenticationError)
    expect(failure(url, sentinel_password: "sesame")).to be_nil
  end

  it "is refused options that belong to sentinels where there are none" do
    expect { open_store(shared_redis.url, sentinel_password: "x") }.to raise_error(
      Plock::ConfigurationError, /names no sentinels/
    )
    expect { open_store("redis+sentinel://a/main", sentinel_tls: "yes") }.to raise_error(
      Plock::ConfigurationError, /sentinel_tls must be true or false/
    )
  end

  describe "of a client" do
    it "is taken over from redis-client" do
      client = RedisClient.sentinel(
        name: "main", sentinels: [{ host: "127.0.0.1", port: sentinel.port }], db: 2
      ).new_client
      store = open_store(client)
      expect(store.url).to eq("redis+sentinel://#{place}/main/2")
      expect(store.acquire("k:#{SecureRandom.hex(4)}") { :entered }).to eq(:entered)
    end
  end
end
