# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/store_contract"

# Each primary has one replica. A stopped replica confirms nothing.
RSpec.describe "A lease on a Redis Cluster that replicas confirm", :slow,
               needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  before(:all) { @cluster = Support::Cluster.new }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:options) { { attempt_timeout: 2, wait: 0 } }
  let(:store) { used(open_store(cluster.url, replicas: 1, **options)) }
  let(:plain) { used(open_store(cluster.url, **options)) }
  let!(:key) { "replicated:#{SecureRandom.hex(8)}" }
  let(:slot) { cluster.slot(lock) }
  let(:lock) { plain.status(key).store_key }
  let(:primary) { cluster.settled_owner(slot) }

  def without_its_replica(primary)
    replica = cluster.replica_of(primary)
    replica.stop_process
    yield
  ensure
    replica.continue_process
    Support::Replication.await(primary, 1)
  end

  def refusal
    yield
    raise "it was granted"
  rescue Plock::UnavailableError => e
    e
  end

  it "is granted when they have it, whether one key is locked or several at all nodes" do
    lease = store.acquire(key, ttl: 30)
    expect(cluster.replica_of(primary).call("DBSIZE")).to be_positive
    expect(lease.extend.release).to be(true)
    keys = cluster.spread(key)
    expect(store.acquire_all(keys, ttl: 30) { :ran }).to eq(:ran)
  end

  it "is refused at the node whose replica is silent, which the error names, and only there" do
    away = primary
    other = Array.new(30) { |number| "#{key}:#{number}" }
                 .find { |name| cluster.owner(plain.status(name).store_key) != away }
    without_its_replica(away) do
      error = refusal { store.acquire(key, ttl: 30) { raise "the block ran" } }
      expect(error).to have_attributes(
        code: :unreplicated,
        message: /\Aredis\+cluster:.*127\.0\.0\.1:#{away.port}: 0 of 1 replicas confirmed/
      )
      eventually { !plain.status(key).held? }
      expect(store.acquire(other, ttl: 30) { :ran }).to eq(:ran)
      error = refusal { store.acquire_all([other, key], ttl: 30) { raise "the block ran" } }
      expect(error.code).to eq(:unreplicated)
      eventually { [key, other].none? { |name| plain.status(name).held? } }
    end
  end

  it "is confirmed by the replicas of the node that gets the slot" do
    lease = store.acquire(key, ttl: 30)
    to = (cluster.primaries - [primary]).first
    cluster.move(slot, to)
    without_its_replica(to) { expect(refusal { lease.extend(ttl: 60) }.code).to eq(:unreplicated) }
    expect(lease.extend.release).to be(true)
  end

  it "is confirmed to a request that is sent elsewhere while the slot moves" do
    lock
    to = (cluster.primaries - [primary]).first
    cluster.move(slot, to) do
      without_its_replica(to) do
        expect(refusal { store.acquire(key, ttl: 30) { raise "the block ran" } }.code)
          .to eq(:unreplicated)
      end
      eventually { !plain.status(key).held? }
      expect(store.acquire(key, ttl: 30) { :ran }).to eq(:ran)
    end
  end
end
