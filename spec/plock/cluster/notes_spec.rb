# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/store_contract"

# If a lock is acquired while its slot moves, the record of its holder is written on the new node.
# Then the record of an earlier holder arrives from the old node, and replaces the new record.
# After that, the lock has a holder without a record.
RSpec.describe "A store on a Redis Cluster where a move has replaced the note of a holder", :slow,
               needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  before(:all) { @cluster = Support::Cluster.new(replicas: 0) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:store) { used(open_store(cluster.url)) }
  let!(:key) { "notes:#{SecureRandom.hex(8)}" }
  let(:semaphore) { store.semaphore(key, permits: 2) }
  let(:prices) { store.read_write_lock(key) }

  def acquire_while_moving(lock, &acquire)
    acquire.call.release
    slot = cluster.slot(lock.status.store_key)
    to = (cluster.primaries - [cluster.owner_of(slot)]).first
    lease = nil
    cluster.move(slot, to) { lease = acquire.call }
    expect(lock.status.holders.map(&:fence)).to eq([nil])
    lease
  end

  it "admits as many holders to a semaphore as before" do
    first = acquire_while_moving(semaphore) { semaphore.acquire(ttl: 60) }
    second = semaphore.try_acquire(ttl: 60)
    expect(second).to be_valid
    expect(semaphore.try_acquire).to be_nil
    expect([first, second].map(&:release)).to eq([true, true])
  end

  it "lets a writer downgrade" do
    writer = acquire_while_moving(prices) { prices.write(ttl: 60) }
    expect(Thread.new { prices.try_read }.value).to be_nil
    expect(writer.downgrade).to be(writer)
    expect(Thread.new { prices.try_read { :too } }.value).to eq(:too)
    expect(Thread.new { prices.try_write }.value).to be_nil
    expect(writer.release).to be(true)
  end

  it "admits nobody beside a writer that is adopted" do
    writer = acquire_while_moving(prices) { prices.write(ttl: 60) }
    adopted = store.adopt(writer.dump)
    expect([prices.try_read, prices.try_write]).to eq([nil, nil])
    expect(adopted.release).to be(true)
  end

  it "hands a permit over" do
    lease = acquire_while_moving(semaphore) { semaphore.acquire(ttl: 60) }
    adopted = store.adopt(lease.dump)
    expect(semaphore.status.holders.map(&:fence)).to eq([adopted.fence])
    expect(adopted.release).to be(true)
  end
end
