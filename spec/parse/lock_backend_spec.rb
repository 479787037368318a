# frozen_string_literal: true

require "moneta"
require_relative "parse_context"

RSpec.describe Parse::LockBackend do
  include_context "with Parse"

  let(:owner) { Plock.token }
  let(:foc_key) { "parse-stack:foc:v1:#{SecureRandom.hex(32)}" }

  it "can be required by itself" do
    expect(
      ruby("require 'parse/lock_backend'; p Parse::LockBackend.degraded_store?(nil)").first
    ).to eq("true\n")
  end

  it "has the methods that applications and Parse Stack call" do
    signatures = {
      lock_store: [], degraded_store?: %i[req], handle_degraded: %i[req req key key],
      try_acquire: %i[req req req req], release: %i[req req req], poll_interval: [],
      monotonic_now: [], reset!: [], lock_secret_for: %i[keyreq key], configured_secret: [],
      auto_secret: [], warn_plain_sha_once: %i[keyreq], process_mutex: %i[req],
      synchronize_process_mutex: %i[req block]
    }
    expect(
      signatures.to_h { |name, _| [name, described_class.method(name).parameters.map(&:first)] }
    ).to eq(signatures)
  end

  describe ".lock_store" do
    before do
      Parse.define_singleton_method(:cache) { @cache.respond_to?(:call) ? @cache.call : @cache }
      discard(-> { Parse.singleton_class.remove_method(:cache) }, :call)
    end

    def cache(value) = Parse.instance_variable_set(:@cache, value)

    it "is what the application has set" do
      cache(:cache)
      Parse.synchronize_create_store = :store
      expect(described_class.lock_store).to be(:store)
    end

    it "is else the cache" do
      cache(:cache)
      expect(described_class.lock_store).to be(:cache)
    end

    it "is looked up at every call" do
      expect(
        %i[first second].map do |store|
          (Parse.synchronize_create_store = store) && described_class.lock_store
        end
      ).to eq(%i[first second])
    end

    it "is nil where Parse is not connected" do
      stub_const("Parse::Error::ConnectionError", Class.new(Parse::Error))
      cache(-> { raise Parse::Error::ConnectionError })
      expect(described_class.lock_store).to be_nil
      expect(warnings { Parse::Lock.acquire(key) { :value } }).to contain_exactly(/process-local/)
    end

    it "passes on any other error of the application's" do
      cache(-> { raise KeyError, "mine" })
      expect { described_class.lock_store }.to raise_error(KeyError, "mine")
    end
  end

  it "finds no store where Parse has none and no cache" do
    expect(described_class.lock_store).to be_nil
  end

  describe ".degraded_store?" do
    {
      "nil" => [-> {}, true],
      "Moneta in memory" => [-> { Moneta.new(:Memory) }, true],
      "Moneta that keeps nothing" => [-> { Moneta.new(:Null) }, true],
      "an object of none of the kinds" => [-> { Object.new }, true],
      "a URL" => [-> { "redis://127.0.0.1" }, false],
      "a Redis client" => [-> { Redis.new }, false],
      "Moneta over Redis" => [-> { Moneta.new(:Redis) }, false],
      "Moneta over files" => [-> { Moneta.new(:File, dir: Dir.tmpdir) }, false]
    }.each do |what, (make, answer)|
      it "is #{answer} for #{what}" do
        expect(described_class.degraded_store?(make.call)).to be(answer)
      end
    end

    it "is false for Parse::Cache::Redis" do
      cache = stub_const("Parse::Cache::Redis", Struct.new(:url)).new("redis://127.0.0.1")
      expect(described_class.degraded_store?(cache)).to be(false)
    end

    it "raises for what is not degraded, but wrong" do
      expect { described_class.degraded_store?("http://127.0.0.1") }.to raise_error(
        Plock::ConfigurationError
      )
    end
  end

  describe ".handle_degraded" do
    it "warns in its own name where no other is given" do
      expect(warnings { described_class.handle_degraded(:warn, "0123456789abcdef") }).to eq(
        ["[Parse::LockBackend] Lock store is process-local; " \
         "cross-process locking disabled. key_digest=456789abcdef\n"]
      )
    end

    it "raises what the caller wants raised" do
      expect {
        described_class.handle_degraded(:raise, "key", source: "Me", unavailable_error: KeyError)
      }.to raise_error(
        KeyError, "Me: cross-process lock store unavailable; current store is process-local"
      )
    end

    it "raises Parse::Error by default" do
      expect { described_class.handle_degraded(:raise, "key") }.to raise_error(Parse::Error)
    end

    it "is silent with :proceed" do
      expect(described_class.handle_degraded(:proceed, "key")).to be_nil
    end
  end

  describe ".try_acquire and .release" do
    {
      "a URL" => -> { shared_redis.unix_url },
      "a plock store" => -> { open_store },
      "a Redis client" => -> { Redis.new(path: shared_redis.unix_path) },
      "Moneta over Redis with plain values" =>
        -> { Moneta.new(:Redis, path: shared_redis.unix_path, value_serializer: nil) }
    }.each do |what, make|
      it "lock in Redis for #{what}" do
        store = instance_exec(&make)
        expect(described_class.try_acquire(store, foc_key, owner, 5)).to be(true)
        expect(described_class.try_acquire(store, foc_key, Plock.token, 5)).to be(false)
        expect(shared_redis.call("GET", foc_key)).to eq(owner)
        expect(shared_redis.call("PTTL", foc_key)).to be_between(4_001, 5_000)
        expect(described_class.release(store, foc_key, Plock.token)).to be(false)
        expect(described_class.release(store, foc_key, owner)).to be(true)
        expect(shared_redis.call("EXISTS", foc_key)).to eq(0)
      end
    end

    it "lock in a Moneta store of this process, too" do
      store = Moneta.new(:Memory)
      expect(described_class.try_acquire(store, foc_key, owner, 5)).to be(true)
      expect(described_class.try_acquire(store, foc_key, Plock.token, 5)).to be(false)
      expect(described_class.release(store, foc_key, owner)).to be(true)
      expect(store.key?(foc_key)).to be(false)
    end

    it "warn of a store that fails, and do not raise" do
      store = "redis://127.0.0.1:1"
      heard = warnings do
        expect(described_class.try_acquire(store, foc_key, owner, 5)).to be(false)
        expect(described_class.release(store, foc_key, owner)).to be_nil
      end
      expect(heard).to match(
        [
          /\A\[Parse::LockBackend\] acquire error \(Plock::UnavailableError\): ./,
          /\A\[Parse::LockBackend\] release error \(Plock::UnavailableError\): ./
        ]
      )
    end

    it "warn of a store that is described wrongly, and of none at all" do
      heard = warnings do
        expect(described_class.try_acquire("http://127.0.0.1", foc_key, owner, 5)).to be(false)
        expect(described_class.try_acquire(nil, foc_key, owner, 5)).to be(false)
      end
      expect(heard).to match(
        [/acquire error \(Plock::ConfigurationError\)/, /acquire error \(NoMethodError\)/]
      )
    end

    it "share no key with Parse::Lock" do
      Parse.synchronize_create_store = shared_redis.unix_url
      digest = OpenSSL::HMAC.hexdigest("SHA256", secret, key)
      described_class.try_acquire(
        Parse.synchronize_create_store, "parse-stack:foc:v1:#{digest}", owner, 5
      )
      expect(acquire(wait: 0) { :both }).to be(:both)
    end
  end

  it "waits 35 to 65 ms between two questions" do
    expect(Array.new(200) { described_class.poll_interval }).to all(be_between(0.035, 0.065))
  end

  it "has a clock that only goes forward" do
    expect(described_class.monotonic_now).to be_within(1).of(
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    )
  end

  describe "secrets" do
    it "are the configured one" do
      expect(described_class.lock_secret_for(store: nil)).to eq(secret)
      expect(described_class.configured_secret).to eq(secret)
    end

    context "where none is configured" do
      let(:secret) { "" }

      it "are one of this process for a store of this process" do
        expect(described_class.lock_secret_for(store: nil, source: "Me")).to eq(
          described_class.auto_secret
        )
        expect(described_class.lock_secret_for(store: Moneta.new(:Memory))).to eq(
          described_class.auto_secret
        )
      end

      it "are none for a store that others see, with one warning for all callers" do
        heard = warnings do
          expect(
            described_class.lock_secret_for(store: "redis://127.0.0.1", source: "Me")
          ).to be_nil
          described_class.warn_plain_sha_once(source: "Another")
        end
        expect(heard).to contain_exactly(
          start_with("[Me:SECURITY] No PARSE_STACK_LOCK_SECRET configured")
        )
      end
    end
  end

  describe ".process_mutex and .synchronize_process_mutex" do
    it "have one mutex for a key" do
      mutex = described_class.process_mutex(key)
      expect(described_class.process_mutex(key)).to be(mutex)
      expect(mutex.synchronize { mutex.owned? }).to be(true)
      described_class.synchronize_process_mutex(key) { expect(mutex).to be_locked }
      expect(mutex).not_to be_locked
    end

    it "return the block's value, and refuse to be nested" do
      expect(described_class.synchronize_process_mutex(key) { :value }).to be(:value)
      expect {
        described_class.synchronize_process_mutex(key) do
          described_class.synchronize_process_mutex(key) { :never }
        end
      }.to raise_error(ThreadError)
    end

    it "have the mutex that a degraded Parse::Lock holds" do
      acquire(on_degraded: :proceed) do
        expect(described_class.process_mutex(store_key)).to be_owned
      end
    end
  end

  describe ".reset!" do
    it "forgets warnings and the secret of this process, and returns nil" do
      before = described_class.auto_secret
      expect(described_class.reset!).to be_nil
      expect(described_class.auto_secret).not_to eq(before)
    end
  end

  describe "with a pool that lends nothing" do
    let(:pool) { ConnectionPool.new(size: 1) { RedisClient.new(path: shared_redis.unix_path) } }
    let(:broken) { ConnectionPool.new(size: 1) { raise IOError, "no credentials today" } }

    it "is not degraded, and a configured secret is given without asking" do
      pool.with do
        Thread.new do
          expect(described_class.degraded_store?(pool)).to be(false)
          Parse.synchronize_create_secret = "configured-secret"
          expect(described_class.lock_secret_for(store: pool)).to eq("configured-secret")
        end.join
      end
    end

    it "warns of what its own code raised, attempt by attempt, and of no release" do
      Parse.synchronize_create_store = broken
      heard = warnings do
        expect {
          Parse::Lock.acquire("k", wait: 0, secret: nil) { raise "entered" }
        }.to raise_error(Parse::Lock::TimeoutError)
      end
      expect(heard).to match([/acquire error \(Plock::UnavailableError\): .*no credentials today/])
    end
  end
end
