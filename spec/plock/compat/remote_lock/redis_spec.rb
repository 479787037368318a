# frozen_string_literal: true

require "spec_helper"
require "active_support"
require "active_support/core_ext/numeric/time"
require "connection_pool"
require "plock/compat/remote_lock"
require "redis"
require "support/store_contract"
require_relative "behaviour"
require_relative "original_process"

RSpec.describe RemoteLock::Adapters::Redis, needs: "redis-server" do
  let(:url) { shared_redis.url }
  let(:adapter) { described_class.new(Redis.new(url: url)) }
  let(:another_adapter) do
    described_class.new(ConnectionPool.new(size: 1) { RedisClient.config(url: url).new_client })
  end
  let(:key) { "key-#{SecureRandom.hex(8)}" }
  let(:name) { "lock|#{key}" }
  let(:lock) { RemoteLock.new(adapter) }

  it_behaves_like "a remote lock"

  it "works with the clients of today" do
    [
      Redis.new(url: url), RedisClient.config(url: url).new_client,
      ConnectionPool.new { Redis.new(url: url) }, url, open_store
    ].each do |connection|
      expect(
        RemoteLock.new(described_class.new(connection)).synchronize(key, retries: 1) { :in }
      ).to be :in
    end
  end

  it "shows no password" do
    adapter = described_class.new("redis://:geheim@localhost")
    store = RemoteLock::Adapters::Store.new("redis://:geheim@localhost")
    expect([adapter, store, RemoteLock.new(adapter)].map(&:inspect).join).not_to include("geheim")
  end

  describe "with a signal handler that raises" do
    include Support::StoreContract

    it "leaves neither the lock nor a turn, at whatever step" do
      other = RemoteLock.new(another_adapter)
      other.synchronize(key) { nil }
      steps = (1..1_000).find do |step|
        cut_off = interrupted_at(step, by_signal: true) { lock.synchronize(key) { nil } }
        expect([step, other.synchronize(key, retries: 5, initial_wait: 0.2) { :in }])
          .to eq [step, :in]
        !cut_off
      end
      expect(steps).to be > 50
    end
  end

  describe "on the wire" do
    it "writes host, process and fiber, and the time it has" do
      adapter.store("k-#{key}", 100)
      expect(shared_redis.call("GET", "k-#{key}")).to match(
        /\A#{Etc.uname[:nodename]}-#{Process.pid}-#{Thread.current[:thread_uid]}\z/
      )
      expect(shared_redis.call("PTTL", "k-#{key}")).to be_between(90_000, 100_000)
    end

    it "writes the owner that a test says" do
      allow(adapter).to receive(:uid).and_return("1234")
      expect(adapter.store(key, 100)).to be true
      expect(shared_redis.call("GET", key)).to eq "1234"
      expect(adapter.store(key, 100)).to be false
      expect(adapter.delete(key)).to be true
      expect(shared_redis.call("GET", key)).to be_nil
    end

    it "reads what others write" do
      allow(adapter).to receive(:uid).and_return("1234")
      shared_redis.call("SETEX", key, 60, "1234")
      expect(adapter.has_key?(key)).to be true
      shared_redis.call("SETEX", key, 60, "notvalid")
      expect([adapter.has_key?(key), adapter.delete(key)]).to eq [false, false]
      shared_redis.call("DEL", key)
      expect(adapter.has_key?(key)).to be false
    end

    it "leaves no turn and no lock behind" do
      lock.synchronize(key) { nil }
      expect(shared_redis.call("EXISTS", name)).to eq 0
      expect(open_store(url).each_lock.map(&:label)).not_to include(name)
    end

    it "acquires again at once after a release that got no answer, and leaves nothing behind" do
      line = proxy
      far = open_store("redis://127.0.0.1:#{line.port}")
      lock = RemoteLock.new(described_class.new(far))
      said = warnings { lock.synchronize(key) { line.swallow(:reply) } }
      expect(said).to match [/could not be released/]
      line.clear
      line.disconnect
      expect(lock.synchronize(key, retries: 4) { :in }).to be :in
      expect(shared_redis.call("EXISTS", name)).to eq 0
      expect(open_store(url).each_lock.map(&:label)).not_to include(name)
    end

    it "releases lock and turn in one request" do
      calls = -> do
        shared_redis.call("INFO", "commandstats")[/^cmdstat_evalsha:calls=(\d+)/, 1].to_i
      end
      lock.synchronize(key) { nil } # after this, the server knows the scripts
      lock.acquire_lock(key)
      expect { expect(lock.release_lock(key)).to be true }.to change(&calls).by(1)
    end

    it "releases the turn of a lock that was lost, and no other caller's lock" do
      lock.acquire_lock(key)
      shared_redis.call("SET", name, "somebody else's", "PX", 60_000)
      expect(lock.release_lock(key)).to be false
      expect(shared_redis.call("GET", name)).to eq "somebody else's"
      expect(open_store(url).each_lock.map(&:label)).not_to include(name)
    end

    it "says in the store who has its turn" do
      lock.synchronize(key) { expect(open_store(url).each_lock.map(&:label)).to include(name) }
    end
  end

  describe "beside processes of the original" do
    let(:original) { discard(OriginalProcess.new(:redis, url), :kill) }

    it_behaves_like "a remote lock beside processes of the original"

    it "has the lock of one that died when its time is over" do
      original.acquire(key, expiry: 1)
      original.kill
      expect(lock.synchronize(key) { :mine }).to be :mine
    end
  end

  describe "waiting" do
    # Starts processes that wait for the lock. Each is in the queue before the next one starts.
    def queue_up(count)
      Array.new(count) do |number|
        lock # made before the fork; it connects in the child
        waiter = child do |parent|
          parent.tell(:waits)
          lock.synchronize(key) { parent.tell([number, monotonic]) && parent.hear }
        end
        waiter.hear
        eventually { waiting == number + 1 }
        waiter
      end
    end

    def waiting
      status = open_store(url).each_lock.find { |one| one.label == name }
      status ? status.waiters.size : 0
    end

    it "serves who came first" do
      lock.acquire_lock(key)
      waiters = queue_up(3)
      lock.release_lock(key)
      served = waiters.map do |waiter|
        number, = waiter.hear
        waiter.tell(:leave)
        number
      end
      expect(served).to eq [0, 1, 2]
    end

    # A waiter of the original gem polls. Before its last try, it sleeps for 10 to 20 s. The
    # benchmark remote_lock measures how soon a waiter of plock enters on an idle machine.
    it "wakes the next waiter, which does not poll", :timing do
      at_most(0.01) do
        took = Array.new(21) do
          lock.acquire_lock(key)
          waiter, = queue_up(1)
          released = monotonic
          lock.release_lock(key)
          _, entered = waiter.hear
          waiter.tell(:leave)
          waiter.result
          entered - released
        end
        took.sort[10]
      end
    end
  end

  describe "when the server fails" do
    let(:server) { redis_server }
    let(:url) { server.url }

    it "raises what is the matter, and does not run the block" do
      server.stop
      expect { lock.synchronize(key) { raise "entered" } }.to raise_error(Plock::UnavailableError)
    end

    it "does not look for a lock that a server which says nothing has not given", :timing do
      relay = proxy(server)
      lock = RemoteLock.new(described_class.new(relay.url))
      allow(lock).to receive(:acquired?).and_wrap_original { |original, key|
        original.call(key).tap { relay.half_open }
      }
      within_budget(0.2) do
        expect { lock.synchronize(key, retries: 1) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
        relay.clear
      end
    end

    it "waits for one release, not for lock and turn one after the other", :timing do
      relay = proxy(server)
      lock = RemoteLock.new(described_class.new(relay.url("release_timeout=0.5")))
      for_as_long_as(0.5) do
        relay.clear
        name = unique_key
        lock.acquire_lock(name)
        relay.half_open
        expect { lock.release_lock(name) }.to raise_error(Plock::UnavailableError)
      end
    end

    it "returns the block's value and warns, if the release fails" do
      value = nil
      said = warnings { value = lock.synchronize(key) { server.stop || :done } }
      expect(value).to be :done
      expect(said).to contain_exactly(/the lock "lock\|#{key}" could not be released/)
    end
  end
end
