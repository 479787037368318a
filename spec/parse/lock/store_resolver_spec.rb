# frozen_string_literal: true

require "moneta"
require_relative "../parse_context"

RSpec.describe Parse::Lock::StoreResolver do
  include_context "with Parse"

  def resolve(source) = described_class.resolve(source)

  def native = Class.new { def lock_acquire(*) = true; def lock_release(*) = true }

  describe "plock's own engine serves" do
    it "a plock store, as it is" do
      store = open_store
      expect(resolve(store)).to be(store)
    end

    it "a URL" do
      %w[redis://127.0.0.1:7001 rediss://127.0.0.1:7001 unix:///tmp/none.sock].each do |url|
        expect(resolve(url)).to be_a(Plock::Store).and have_attributes(url: url)
      end
    end

    {
      "a redis client" => -> { Redis.new(host: "127.0.0.1", port: 7001, db: 2) },
      "a redis-client" => -> { RedisClient.new(host: "127.0.0.1", port: 7001, db: 2) },
      "a pool of redis-client's" => -> do
        RedisClient.config(host: "127.0.0.1", port: 7001, db: 2).new_pool
      end,
      "a ConnectionPool" => -> do
        ConnectionPool.new { Redis.new(host: "127.0.0.1", port: 7001, db: 2) }
      end,
      "a wrapped ConnectionPool" => -> do
        ConnectionPool.wrap(size: 1) { Redis.new(host: "127.0.0.1", port: 7001, db: 2) }
      end,
      "Moneta over Redis" => -> { Moneta.new(:Redis, host: "127.0.0.1", port: 7001, db: 2) }
    }.each do |what, make|
      it what do
        expect(resolve(make.call)).to be_a(Plock::Store).and have_attributes(
          url: "redis://127.0.0.1:7001/2"
        )
      end
    end

    it "Parse::Cache::Redis, although it knows how to lock" do
      cache =
        stub_const(
          "Parse::Cache::Redis", Class.new(native) { def url = "redis://127.0.0.1:7001/2" }
        ).new
      expect(resolve(cache)).to be_a(Plock::Store).and have_attributes(
        url: "redis://127.0.0.1:7001/2"
      )
    end
  end

  describe "the application's own store serves itself where it" do
    it "knows how to lock" do
      store = native.new
      expect(resolve(store)).to be(store)
    end

    it "knows how to create" do
      store =
        Class.new { %i[key? create [] delete].each { |name| define_method(name) { |*| nil } } }.new
      expect(resolve(store)).to be(store)
    end

    it "is Moneta over Redis that changes values in a way of its own" do
      store = Moneta.new(:Redis, host: "127.0.0.1", compress: true)
      expect(resolve(store)).to be(store)
    end

    it "is Moneta over what other processes see" do
      store = Moneta.new(:File, dir: Dir.tmpdir)
      expect(resolve(store)).to be(store)
    end
  end

  describe "there is no store that other processes see in" do
    {
      "nil" => -> {},
      "an object of none of the kinds" => -> { Object.new },
      "half a protocol" => -> { Class.new { def lock_acquire(*) = true }.new },
      "an object without methods" => -> { BasicObject.new },
      "Moneta in memory" => -> { Moneta.new(:Memory) },
      "Moneta in memory with a lifetime for its values" =>
        -> { Moneta.new(:Memory, expires: true, threadsafe: true) },
      "Moneta that keeps nothing" => -> { Moneta.new(:Null) },
      "a pool of something else" => -> { ConnectionPool.new { Object.new } },
      "a wrapped pool of something else" => -> { ConnectionPool.wrap(size: 1) { Object.new } }
    }.each do |what, make|
      it what do
        expect(resolve(make.call)).to be_nil
      end
    end

    it "plock's store in memory, and its URL" do
      expect(
        [resolve(Plock::Store.open("memory:")), resolve("memory:"), resolve("memory:name")]
      ).to eq [nil, nil, nil]
    end

    it "a store that knows how to lock, over an adapter in memory" do
      adapter = stub_const("OurMemoryAdapter", Class.new).new
      store = Class.new(native) { define_method(:adapter) { adapter } }.new
      expect(resolve(store)).to be_nil
    end
  end

  describe "a wrong configuration" do
    it "raises for a bad URL, each time" do
      2.times { expect { resolve("http://127.0.0.1") }.to raise_error(Plock::ConfigurationError) }
    end

    it "raises for a client that plock cannot stand in for" do
      client = stub_const("RedisClient::Cluster", Class.new).new
      expect { resolve(client) }.to raise_error(Plock::UnsupportedError, /RedisClient::Cluster/)
    end
  end

  describe "its memory" do
    it "is one store for all clients of one server" do
      clients = [
        Redis.new(host: "127.0.0.1", port: 7001), RedisClient.new(host: "127.0.0.1", port: 7001),
        Moneta.new(:Redis, host: "127.0.0.1", port: 7001, value_serializer: nil)
      ]
      expect([*clients, "redis://127.0.0.1:7001"].map { |client| resolve(client) }.uniq.size).to be(
        1
      )
    end

    it "is not one store for different databases, users or encodings" do
      clients = [
        Redis.new(host: "127.0.0.1", port: 7001), Redis.new(host: "127.0.0.1", port: 7001, db: 1),
        Redis.new(host: "127.0.0.1", port: 7001, password: "x"),
        Redis.new(host: "127.0.0.1", port: 7001, ssl: true),
        Moneta.new(:Redis, host: "127.0.0.1", port: 7001)
      ]
      expect(clients.map { |client| resolve(client) }.uniq.size).to be(clients.size)
    end

    it "is what an object resolved to: it is not looked at again" do
      client = Redis.new(host: "127.0.0.1", port: 7001)
      first = resolve(client)
      allow(Plock::ClientAddress).to receive(:of).and_raise("looked at again")
      expect(resolve(client)).to be(first)
      expect { resolve(Redis.new(host: "127.0.0.1")) }.to raise_error("looked at again")
    end

    it "costs no object" do
      store = resolve(source = Redis.new(host: "127.0.0.1", port: 7001))
      GC.disable
      before = GC.stat(:total_allocated_objects)
      100.times { described_class.resolve(source) }
      expect(GC.stat(:total_allocated_objects) - before).to be < 10
      expect(store).to be_a(Plock::Store)
    ensure
      GC.enable
    end

    it "goes by the object, not by what it is equal to" do
      first = Redis.new(host: "127.0.0.1", port: 7001)
      second = Redis.new(host: "127.0.0.1", port: 7002)
      [first, second].each { |client| client.define_singleton_method(:==) { |_| true } }
      expect(resolve(first)).not_to be(resolve(second))
    end

    it "is bounded" do
      resolve(first = native.new)
      100.times { resolve(native.new) }
      expect(described_class.instance_variable_get(:@resolved).size).to be <= 16
      expect(resolve(first)).to be(first)
    end

    it "is bounded for servers, too" do
      100.times { |i| resolve("redis://127.0.0.1:#{7100 + i}") }
      expect(described_class.instance_variable_get(:@stores).size).to be <= 64
    end

    it "holds no password" do
      resolve("redis://:sesame@127.0.0.1:7001")
      expect(described_class.instance_variable_get(:@stores).keys.join).to match(/\A\h+\z/)
    end

    it "is forgotten on demand, with the stores left open" do
      client = Redis.new(host: "127.0.0.1", port: 7001)
      store = resolve(client)
      described_class.reset
      expect(described_class.instance_variable_get(:@resolved)).to be_empty
      expect(resolve(client)).to be(store)
      expect(store).not_to be_closed
    end

    it "survives many threads at once" do
      clients = Array.new(8) { |i| Redis.new(host: "127.0.0.1", port: 7001 + (i % 2)) }
      stores = clients.map { |client| background { resolve(client) } }.map(&:value)
      expect(stores.uniq.size).to be(2)
    end
  end
end
