# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/store_contract"

# After a node has left a cluster, its address may belong to another server. The examples empty and
# reset the node, and make it a separate cluster at the same address.
RSpec.describe "A node that has left a Redis Cluster", :slow,
               needs: Support::RedisServer::PROGRAM, redis_version: "7" do
  include Support::StoreContract

  before(:all) { @cluster = Support::Cluster.new(replicas: 0) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let!(:store) { used(open_store(cluster.url)) }
  let(:keys) { cluster.spread("former:#{SecureRandom.hex(8)}", each: 2) }

  def slot(key) = cluster.slot(store.status(key).store_key)

  # Adds a node and removes it again. The store connects to the node while the node serves the
  # slot.
  def add_and_remove(key)
    node = discard(cluster.add, :stop)
    from = cluster.move(slot(key), node)
    expect(store.acquire(key, wait: 2) { store.status(key).node }).to end_with(":#{node.port}")
    yield if block_given?
    cluster.move(slot(key), from)
    store.acquire(key, wait: 2) { nil }
    forget(node)
    node
  end

  def forget(node)
    cluster.servers.delete(node)
    cluster.servers.each { |one| one.call("CLUSTER", "FORGET", node.call("CLUSTER", "MYID")) }
    node.call("CLUSTER", "RESET", "HARD")
  end

  def found_another_cluster(node)
    node.call("CLUSTER", "ADDSLOTSRANGE", 0, Support::Cluster::SLOTS - 1)
    eventually { node.call("CLUSTER", "INFO").include?("cluster_state:ok") }
  end

  it "is not asked for the slots while others serve them" do
    held = keys.first
    node = add_and_remove(held)
    found_another_cluster(node)
    lease = store.acquire(held, ttl: 60, wait: 2)
    keys.drop(1).each do |key| # each move makes the store ask a different node for the map
      owner = cluster.settled_owner(slot(key))
      cluster.move(slot(key), (cluster.primaries - [owner]).first)
      store.acquire(key, wait: 2) { sleep 0.15 }
      expect(store.try_acquire(held)).to be_nil
    end
    expect(node.call("DBSIZE")).to eq(0)
    expect(lease.release).to be(true)
  end

  # The idle store loads the map of the slots after each move that it notices. If it loaded the map
  # after the key's last move, it asks the right node, which refuses the key. With an older map, it
  # asks the former node, which grants the key.
  it "may grant a key to a process that has not seen it leave" do
    held = keys.first
    idle = used(open_store(cluster.url))
    node = add_and_remove(held) { idle.acquire(held, wait: 2) { nil } }
    found_another_cluster(node)
    lease = store.acquire(held, ttl: 60, wait: 2)
    expect(idle.try_acquire(held, &:fence)).to be_nil.or be > lease.fence
    expect(lease.release).to be(true)
  end
end
