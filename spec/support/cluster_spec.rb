# frozen_string_literal: true

require "spec_helper"
require "support/cluster"

RSpec.describe Support::Cluster, :slow, needs: Support::RedisServer::PROGRAM do
  it "gives a slot that no node claims to the node that has its keys" do
    cluster = described_class.new(replicas: 0)
    from = cluster.owner_of(slot = cluster.slot("key"))
    to = (cluster.servers - [from]).first
    cluster.move(slot, to)
    to.call("SET", "key", "1")
    # now each node names the other one as the owner
    to.call("CLUSTER", "DELSLOTS", slot)
    to.call("CLUSTER", "SETSLOT", slot, "NODE", from.call("CLUSTER", "MYID"))
    expect(cluster.settled_owner(slot)).to eq(to)
  ensure
    cluster&.stop
  end
end
