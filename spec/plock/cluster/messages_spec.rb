# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/store_contract"

# PUBLISH sends a message to all nodes of a cluster. SPUBLISH sends it only to the nodes that
# serve one slot.
RSpec.describe "Messages to waiters on a Redis Cluster", :slow,
               needs: Support::RedisServer::PROGRAM, redis_version: "7" do
  include Support::StoreContract

  before(:all) do
    @cluster = Support::Cluster.new(replicas: 0)
    admit("all", "+@all")
    admit("functions", "+@all", "-eval", "-evalsha", "-script")
    admit("few", "+@all", "-ssubscribe", "-spublish")
  end

  after(:all) { @cluster.stop }

  before { cluster.servers.each { |one| one.call("CONFIG", "RESETSTAT") } }

  attr_reader :cluster

  let(:key) { "messages:#{SecureRandom.hex(8)}" }
  let(:from) { cluster.owner(store_for("all").status(key).store_key) }
  let(:to) { (cluster.primaries - [from]).first }

  def admit(user, *rules)
    @cluster.servers.each do |one|
      one.call("ACL", "SETUSER", user, "reset", "on", ">pw", "~*", "&*", *rules)
    end
  end

  def stores = @stores ||= {}

  def store_for(user) =
    stores[user] ||= used(open_store(cluster.url(user: "#{user}:pw"), **Support::Examples::PATIENT))

  # Releases a lock for which three waiters wait, and expects each of them to acquire it in turn.
  def hand_over(user)
    lease = store_for(user).acquire(key, ttl: 60, wait: 5)
    waiters = Array.new(3) do |number|
      wait_in_line(number + 1) { store_for(user).acquire(key, ttl: 60, wait: 60) { number } }
    end
    yield if block_given?
    lease.release
    expect(waiters.map(&:value)).to eq([0, 1, 2])
  end

  def calls(command, server) =
    server.call("INFO", "commandstats")[/cmdstat_#{command}:calls=(\d+)/, 1].to_i

  def channels(server) = server.call("PUBSUB", "SHARDCHANNELS", "plock:1:wake:*")

  # The helper wait_in_line reads the queue through `store`.
  def store = store_for("all")

  %w[all functions].each do |user|
    it "do not go to other nodes, if the user may call #{user}" do
      hand_over(user)
      expect(calls("spublish", from)).to be >= 3
      expect(cluster.servers.sum { |one| calls("publish", one) }).to eq(0)
    end
  end

  it "go to all nodes if the user may not use sharded channels" do
    hand_over("few")
    expect(calls("publish", from)).to be >= 3
  end

  it "reach a waiter though the slot of its channel has moved, and the next one has another" do
    tag = nil
    hand_over("all") do
      tag = channels(from).first
      cluster.move(cluster.slot(tag), to)
    end
    expect(calls("publish", from)).to be >= 1
    eventually { channels(from).any? }
    expect(channels(from)).not_to include(tag)
    spread = calls("publish", from)
    hand_over("all")
    expect(calls("publish", from)).to eq(spread)
  end
end
