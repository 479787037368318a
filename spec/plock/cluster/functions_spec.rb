# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/store_contract"

# The user may call functions, but not scripts. The store loads its library on each node.
RSpec.describe "A store on a Redis Cluster whose user may call functions only", :slow,
               needs: Support::RedisServer::PROGRAM, redis_version: "7" do
  before(:all) do
    @cluster = Support::Cluster.new(replicas: 0)
    admit(@cluster.servers)
  end

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:opener) do
    ->(**options) do
      used(open_store(cluster.url(user: "few:pw"), **Support::Examples::PATIENT, **options))
    end
  end
  let(:store) { opener.call }

  def admit(servers)
    servers.each do |one|
      one.call("ACL", "SETUSER", "few", "reset", "on", ">pw", "~*", "&*", "+@all", "-eval",
               "-evalsha", "-script")
    end
  end

  def libraries(server) = server.call("FUNCTION", "LIST").map { |one| one["library_name"] }

  def loads(server) = server.call("INFO", "commandstats")[/function\|load:calls=(\d+)/, 1].to_i

  let(:name_in_store) { /\Aplock:v1:\{\h{8}\}\h{56}\z/ }

  it_behaves_like "a store"

  describe "by itself" do
    let(:key) { "functions:#{SecureRandom.hex(8)}" }
    let(:lock) { store.status(key).store_key }
    let(:from) { cluster.owner(lock) }
    let(:to) { (cluster.primaries - [from]).first }

    before do
      cluster.servers.each do |one|
        one.call("FUNCTION", "FLUSH")
        one.call("CONFIG", "RESETSTAT")
      end
    end

    it "loads one library once at each node" do
      3.times { store.acquire_all(cluster.spread(key)) { nil } }
      expect(cluster.servers.map { |one| loads(one) }).to all(eq(1))
      expect(cluster.servers.flat_map { |one| libraries(one) }.uniq).to match([/\Aplock_\h{8}\z/])
    end

    it "loads it at a node that gets a slot, also while the slot moves" do
      lease = store.acquire(key, ttl: 60, wait: 5)
      waiter = background { store.acquire(key, ttl: 60, wait: 20) { :entered } }
      eventually { store.status(key).waiters.any? }
      to.call("FUNCTION", "FLUSH")
      cluster.move(cluster.slot(lock), to, keys: [lock]) do
        expect(lease.extend).to be(lease)
      end
      to.call("FUNCTION", "FLUSH")
      expect(lease.release).to be(true)
      expect(waiter.value).to eq(:entered)
      expect(libraries(to).size).to eq(1)
    end

    it "shares its locks with processes that call scripts" do
      scripts = used(open_store(cluster.url))
      lease = scripts.acquire(key, ttl: 30)
      waiter = background { store.acquire(key, ttl: 30, wait: 20, &:fence) }
      eventually { scripts.status(key).waiters.any? }
      lease.release
      expect(waiter.value).to be > lease.fence
      expect(store.acquire(key, ttl: 30) { scripts.try_acquire(key) }).to be_nil
    end
  end
end
