# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/scripts"
require "support/moving_slots"
require "support/store_contract"

# Slots move while callers hold their locks or wait for them. In some examples, a part of a slot's
# keys stays on the old node for a while.
RSpec.describe "A store on a Redis Cluster whose slots move", :slow,
               needs: Support::RedisServer::PROGRAM do
  include Support::MovingSlots
  include Support::StoreContract

  before(:all) { @cluster = Support::Cluster.new(replicas: 0) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:store) { used(open_store(cluster.url)) }
  let!(:key) { "moving:#{SecureRandom.hex(8)}" }
  let(:lock) { store.status(key).store_key }
  let(:slot) { cluster.slot(lock) }
  let(:from) { cluster.owner_of(slot) }
  let(:to) { (cluster.primaries - [from]).first }

  def companion = Support::Scripts.companion(lock)

  def queue = Support::Scripts.queue(lock)

  # Another key of the same slot.
  def beside(key)
    (1..).lazy.map { |number| "#{key}:#{number}" }
         .find { |name| cluster.slot(store.config.store_key(name)) == slot }
  end

  it "keeps a lease whose slot moves, and renews it at the new node" do
    lease = store.acquire(key, ttl: 1.2, wait: 5, renew: true)
    cluster.move(slot, to)
    outlive(lease.valid_until, lease.ttl)
    expect([lease.valid?, lease.lost?]).to eq([true, false])
    expect(to.call("PTTL", lock)).to be > 0
    expect(lease.extend).to be(lease)
    expect(lease.release).to be(true)
    expect(to.call("EXISTS", lock)).to eq(0)
  end

  it "serves waiters in their order, though the holder releases as soon as the slot has moved",
     :timing do
    lease = store.acquire(key, ttl: 60, wait: 5)
    order = Queue.new
    waiters = Array.new(20) do |number|
      wait_in_line(number + 1) { store.acquire(key, wait: 30) { order << number } }
    end
    cluster.move(slot, to)
    expect(lease.release).to be(true)
    released_at = monotonic
    waiters.each { |waiter| waiter.join(30) }
    expect(Array.new(order.size) { order.pop }).to eq((0...20).to_a)
    expect(monotonic - released_at).to be < 3.0
  end

  it "serves the waiters of several processes in their order" do
    other = used(open_store(cluster.url))
    lease = store.acquire(key, ttl: 60, wait: 5)
    order = Queue.new
    waiters = Array.new(10) do |number|
      wait_in_line(number + 1) do
        (number.odd? ? other : store).acquire(key, wait: 30) { order << number }
      end
    end
    cluster.move(slot, to)
    expect(lease.release).to be(true)
    waiters.each { |waiter| waiter.join(30) }
    expect(Array.new(order.size) { order.pop }).to eq((0...10).to_a)
  end

  context "while the window is open" do
    it "acquires a free lock at the new node, and it is held there afterwards" do
      fences = [store.acquire(key, &:fence)]
      cluster.move(slot, to) do
        lease = store.acquire(key, ttl: 60, wait: 1)
        fences << lease.fence
        expect(to.call("ASKING") && to.call("EXISTS", lock)).to eq(1).or eq(0)
        expect { open_store(cluster.url).acquire(key, wait: 0.2) }
          .to raise_error(Plock::TimeoutError)
        expect(lease.release).to be(true)
        fences << store.acquire(key, &:fence)
      end
      fences << store.acquire(key, wait: 1, &:fence)
      expect(fences).to eq(fences.sort.uniq)
    end

    it "extends, renews and releases a lease that is still at the old node" do
      lease = store.acquire(key, ttl: 1.2, wait: 5, renew: true)
      cluster.move(slot, to) do
        outlive(lease.valid_until, lease.ttl)
        expect([lease.valid?, lease.lost?]).to eq([true, false])
        expect(lease.extend).to be(lease)
        expect(lease.release).to be(true)
        expect(store.acquire(key, wait: 1) { :entered }).to eq(:entered)
      end
    end

    it "extends, renews and releases a lease of which only the key has moved" do
      lease = store.acquire(key, ttl: 1.2, wait: 5, renew: true)
      cluster.move(slot, to, keys: [lock]) do
        outlive(lease.valid_until, lease.ttl)
        expect([lease.valid?, lease.lost?]).to eq([true, false])
        expect(lease.extend).to be(lease)
        expect(lease.release).to be(true)
        expect(store.acquire(key, wait: 1) { :entered }).to eq(:entered)
      end
    end

    {
      "permit" => ->(store, key, **options) { store.semaphore(key, permits: 1).acquire(**options) },
      "write lock" => ->(store, key, **options) { store.read_write_lock(key).write(**options) }
    }.each do |name, take|
      it "adopts a #{name} that is still at the old node" do
        lease = take.call(store, key, ttl: 60, wait: 5)
        slot = cluster.slot(lease.store_key)
        cluster.move(slot, (cluster.primaries - [cluster.owner_of(slot)]).first) do
          adopted = store.adopt(lease.dump, ttl: 60)
          expect(adopted).to be_valid
          expect(adopted.extend.release).to be(true)
        end
      end

      it "releases a #{name} that is still at the old node, and keeps it taken for at_least:" do
        lease = take.call(store, key, ttl: 60, wait: 5, at_least: 60)
        slot = cluster.slot(lease.store_key)
        cluster.move(slot, (cluster.primaries - [cluster.owner_of(slot)]).first) do
          expect(lease.release).to be(true)
        end
        expect { take.call(store, key, wait: 0.2) }.to raise_error(Plock::TimeoutError)
      end
    end

    # While a slot moves, a command for several keys can fail in two ways. The error depends on
    # whether the node has none of the keys or only some. A semaphore must work in both cases.
    it "takes and releases permits beside others that are held" do
      semaphore = store.semaphore(key, permits: 3)
      leases = Array.new(2) { semaphore.acquire(ttl: 60, wait: 5) }
      slot = cluster.slot(leases.first.store_key)
      cluster.move(slot, (cluster.primaries - [cluster.owner_of(slot)]).first) do
        leases << semaphore.acquire(ttl: 60, wait: 5)
        # no permit is free, and while the slot moves, no caller can enter the queue
        expect { open_store(cluster.url).semaphore(key, permits: 3).acquire(wait: 0.2) }
          .to raise_error(Plock::Error)
        expect(leases.map(&:release)).to eq([true, true, true])
      end
      leases = Array.new(3) { semaphore.acquire(ttl: 60, wait: 1) }
      expect(leases.map(&:release)).to eq([true, true, true])
    end

    it "acquires and releases several keys of one slot, of which some have waiters" do
      keys = [key, beside(key)]
      over = Queue.new
      all = background { store.acquire_all(keys, ttl: 60, wait: 5) { over.pop } }
      eventually { store.status(keys.last).held? }
      waiting = background { store.acquire(keys.first, wait: 30) { :entered } }
      eventually { store.status(keys.first).waiters.any? }
      cluster.move(slot, to) do
        over << :left
        expect([all.value, waiting.value]).to eq(%i[left entered])
        expect(store.acquire_all(keys, ttl: 60, wait: 5) { :again }).to eq(:again)
      end
    end

    it "hands a lock over to waiters, wherever its keys are" do
      [[], [:lock], [:queue], %i[lock queue], %i[lock companion queue]].each do |parts|
        names = -> { parts.map { |part| __send__(part) } }
        order = Queue.new
        lease = store.acquire(key, ttl: 60, wait: 5)
        waiters = Array.new(3) do |number|
          wait_in_line(number + 1) { store.acquire(key, wait: 30) { order << number } }
        end
        target = (cluster.primaries - [cluster.owner_of(slot)]).first
        cluster.move(slot, target, keys: names.call) do
          expect(lease.release).to be(true)
          sleep 1.5
        end
        waiters.each { |waiter| waiter.join(10) }
        expect([parts, Array.new(order.size) { order.pop }.sort]).to eq([parts, [0, 1, 2]])
        expect(waiters).to all(satisfy { |waiter| !waiter.alive? })
      end
    end
  end

  it "may be granted twice if the move is given up half-way" do
    cluster.move(slot, to) do |from|
      lease = store.acquire(key, ttl: 60, wait: 1)
      [from, to].each { |one| one.call("CLUSTER", "SETSLOT", slot, "STABLE") }
      other = open_store(cluster.url).acquire(key, ttl: 60, wait: 1)
      expect(other.fence).to be > lease.fence
      expect(other.release).to be(true)
      from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.call("CLUSTER", "MYID"))
      to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", from.call("CLUSTER", "MYID"))
      expect(lease.release).to be(true)
    end
  end

  it "never lets two in, while slots move to and fro under load", :slow do
    rooms = move_under_load(
      cluster, used(open_store(cluster.url, **Support::MovingSlots::PATIENT)), key
    )
    expect(rooms.map(&:most)).to all(eq(1))
    expect(rooms.sum(&:count)).to be > 100
  end
end
