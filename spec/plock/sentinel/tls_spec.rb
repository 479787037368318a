# frozen_string_literal: true

require "spec_helper"
require "support/files_that_go"
require "support/sentinels"

RSpec.describe "TLS with sentinels", needs: Support::RedisServer::PROGRAM do
  include Support::FilesThatGo

  let(:server) { redis_server(:tls) }
  let(:sentinel) { sentinel_of(server) }
  let(:patient) { { attempt_timeout: 5, connect_timeout: 5, release_timeout: 5 } }
  let(:key) { "tls:#{SecureRandom.hex(4)}" }
  let(:ca) { { ca_file: Support::Certificates.ca.cert_file } }
  let(:elsewhere) { Support::Certificates.wrong_name }

  def sentinel_of(server, cert: Support::Certificates.server)
    monitor = ["main", "127.0.0.1", server.port.to_s, "1"]
    redis_server(:sentinel, cert: cert, monitor: monitor)
  end

  def store_of(sentinel, **options) =
    open_store("rediss+sentinel://127.0.0.1:#{sentinel.port}/main", **options, **patient)

  def expect_service(...) = expect(store_of(...).acquire(key) { :entered }).to eq(:entered)

  def expect_refusal(sentinel, words, **options)
    expect { store_of(sentinel, **options).acquire(key) { nil } }.to raise_error(
      Plock::AuthenticationError, /the sentinel 127\.0\.0\.1:#{sentinel.port}: .*#{words}/
    )
  end

  it "verifies them as it does the servers" do
    expect_service(sentinel, **ca)
    expect_refusal(sentinel, "certificate")
  end

  it "is asked for by the URL, of sentinels and of servers" do
    plain = sentinel_of(redis_server)
    unencrypted = redis_server(
      :sentinel, monitor: ["main", "127.0.0.1", redis_server.port.to_s, "1"]
    )
    {
      "redis+sentinel://127.0.0.1:#{sentinel.port}/main" => %r{sentinel .*use rediss\+sentinel://},
      "redis://127.0.0.1:#{server.port}" => %r{use rediss://},
      "rediss+sentinel://127.0.0.1:#{plain.port}/main" => %r{use redis\+sentinel://},
      "rediss+sentinel://127.0.0.1:#{unencrypted.port}/main" => /sentinels.*do they speak TLS/
    }.each do |url, remedy|
      options = url.start_with?("rediss") ? ca : {}
      expect { open_store(url, **options).acquire(key, wait: 0) { nil } }
        .to raise_error(Plock::UnavailableError, remedy)
    end
  end

  it "verifies them by the name of the servers, unless they have one of their own" do
    common = sentinel_of(named = redis_server(:tls, cert: elsewhere), cert: elsewhere)
    expect_service(common, server_name: "elsewhere.example", **ca)
    single = sentinel_of(named)
    expect_refusal(single, "mismatch", server_name: "elsewhere.example", **ca)
    expect_service(single, server_name: "elsewhere.example", sentinel_server_name: "", **ca)
  end

  it "takes from the servers what it is not given for them" do
    expect_service(sentinel_of(server, cert: elsewhere),
                   sentinel_server_name: "elsewhere.example", **ca)
    expect_service(sentinel, sentinel_ca_file: ca[:ca_file], **ca)
    expect_refusal(sentinel, "mismatch", sentinel_server_name: "other.example", **ca)
  end

  it "takes the settings over that a client has for each sentinel" do
    one = { host: "127.0.0.1", port: sentinel_of(server, cert: elsewhere).port, ssl: true }
    right, wrong = %w[elsewhere.example other.example].map do |name|
      client = RedisClient.sentinel(
        url: "rediss://main", ssl_params: ca,
        sentinels: [{ **one, ssl_params: { **ca, hostname: name } }]
      )
      open_store(client, **patient)
    end
    expect(right.acquire(key) { :entered }).to eq(:entered)
    expect { wrong.acquire(key) { nil } }
      .to raise_error(Plock::AuthenticationError, /the sentinel .*mismatch/)
  end

  describe "whose files are out of reach after the first call" do
    let(:store) { store_of(sentinel, **files) }

    before do
      store.acquire(key) { nil }
      @lease = store.acquire(key, ttl: 60)
      files_go
    end

    it "goes on with new connections, in a forked child, too" do
      store.close
      expect(store.acquire("another #{key}") { :entered }).to eq(:entered)
      expect(in_child { store.acquire("another #{key}") { :entered } }).to eq(:entered)
      @lease.release
    end

    it "releases what was held, on a new connection" do
      [server, sentinel].each do |one|
        one.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      end
      expect(@lease.release).to be(true)
      expect(server.call("EXISTS", @lease.store_key)).to eq(0)
    end
  end

  describe "after a failover", :slow, :alone do
    let(:group) { discard(Support::Sentinels.new(tls: true), :stop) }
    let(:store) { open_store(group.url, unavailable_timeout: 30, **ca, **patient) }

    it "goes on at the new primary, with the leases and the waiters" do
      lease = store.acquire(key, ttl: 60, renew: true)
      waiter = background { store.acquire(key, wait: 30) { :entered } }
      eventually { store.status(key).waiters.size == 1 }
      Support::Replication.await(group.primary, 2)
      group.fail_over
      expect(lease.extend).to be(lease)
      expect([lease.release, waiter.value]).to eq([true, :entered])
    end
  end
end
