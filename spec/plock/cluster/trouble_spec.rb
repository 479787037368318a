# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/scripts"
require "support/store_contract"

# Failures and other events in a process at the very moment when a slot moves.
RSpec.describe "A store on a Redis Cluster in trouble", :slow,
               needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  before(:all) { @cluster = Support::Cluster.new(replicas: 0) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:options) { {} }
  let(:store) { used(open_store(cluster.url, **options)) }
  let!(:key) { "trouble:#{SecureRandom.hex(8)}" }
  let(:lock) { store.status(key).store_key }
  let(:slot) { cluster.slot(lock) }
  let(:from) { cluster.settled_owner(slot) }
  let(:to) { (cluster.primaries - [from]).first }

  describe "while the node of the secret's fingerprint is silent" do
    let(:options) { { namespace: "trouble", wait: 0 } }
    let(:silent) { cluster.owner("plock:1:secret:trouble") }
    let(:key) { ("a".."z").find { |name| owner_of(name) != silent } }

    after { silent.continue_process }

    def owner_of(name) = cluster.owner(store.status(name).store_key)

    it "locks a key of another node, if it has compared the secret before, and not otherwise" do
      store.acquire(key) { nil }
      silent.stop_process
      expect(store.acquire(key) { :entered }).to eq(:entered)
      new = open_store(cluster.url, **options)
      expect { new.acquire(key) { raise "the block ran" } }
        .to raise_error(Plock::UnavailableError, /:#{silent.port}\b/)
    end
  end

  describe "for several keys, of which the last one's node is silent" do
    let(:keys) { ("a".."z").map { |name| "#{key}:#{name}" }.sort_by { |each| lock_of(each) } }
    let(:last) { keys.last }
    let(:silent) { cluster.owner(lock_of(last)) }
    let(:named) { [keys.find { |each| cluster.owner(lock_of(each)) != silent }, last] }

    after { silent.continue_process }

    def lock_of(name) = store.status(name).store_key

    it "says that the node is silent, and not that another caller has the key" do
      store.acquire_all(named, wait: 2) { nil }
      silent.stop_process
      [0, 0.05, 0.3].each do |wait|
        expect { store.acquire_all(named, wait:) { raise "the block ran" } }
          .to raise_error(Plock::UnavailableError, /:#{silent.port}\b/)
      end
      expect { store.try_acquire_all(named) { raise "the block ran" } }
        .to raise_error(Plock::UnavailableError)
    end
  end

  def held?(server) = server.call("EXISTS", lock) == 1

  describe "with a release in the background" do
    let(:options) { { release: :background } }

    it "releases a lock whose slot has moved during the block" do
      store.acquire(key, ttl: 60) { nil }
      store.acquire(key, ttl: 60, wait: 2) { cluster.move(slot, to) }
      eventually(2.0) { !held?(to) }
      expect(store.acquire(key, ttl: 60, wait: 1) { :entered }).to eq(:entered)
    end

    it "releases a lock of which only a part has moved" do
      store.acquire(key, ttl: 60) { nil }
      [[:lock], [:companion], %i[lock companion]].each do |parts|
        names = parts.map { |part| part == :lock ? lock : Support::Scripts.companion(lock) }
        from = cluster.settled_owner(slot)
        to = (cluster.primaries - [from]).first
        cluster.begin_moving(slot, to)
        store.acquire(key, ttl: 60, wait: 2) { cluster.migrate(from, to, names) }
        eventually(2.0) { store.try_acquire(key, ttl: 60) { :entered } }
        cluster.move(slot, to)
      end
    end

    it "releases a lock whose slot moves to and fro, and keeps the wire's order afterwards" do
      4.times do
        store.acquire(key, ttl: 60, wait: 2) do
          cluster.move(slot, (cluster.primaries - [cluster.settled_owner(slot)]).sample)
        end
      end
      eventually(2.0) { cluster.primaries.none? { |one|
 one == cluster.owner_of(slot) && held?(one) } }
      3.times { expect(store.try_acquire(key, ttl: 60) { :entered }).to eq(:entered) }
    end
  end

  it "goes on in a forked child while waiters of the parent move with their slot" do
    lease = store.acquire(key, ttl: 60)
    order = Queue.new
    waiters = Array.new(5) do |number|
      wait_in_line(number + 1) { store.acquire(key, wait: 30) { order << number } }
    end
    child = nil
    cluster.move(slot, to) { child = background { in_child { lock_in_child } } }
    expect(child.value).to eq([nil, :entered])
    expect(lease.release).to be(true)
    waiters.each { |waiter| waiter.join(20) }
    expect(Array.new(order.size) { order.pop }).to eq([*0...5])
  end

  def lock_in_child
    [store.try_acquire(key), store.acquire("#{key}:child", wait: 5) { :entered }]
  end

  it "may be closed while its waiters move with their slot" do
    lease = store.acquire(key, ttl: 60)
    waiters = Array.new(5) do |number|
      wait_in_line(number + 1) { store.acquire(key, wait: 30) { :entered } }
    end
    cluster.move(slot, to) { store.close }
    store.close
    expect(lease.release).to be(true)
    expect(waiters.map(&:value)).to all(eq(:entered))
  end

  it "may be collected while it still waits for a map, or for a slot" do
    20.times do |number|
      lone = Plock::Store.open(cluster.url, namespace: "n#{number}")
      Timeout.timeout(0.0005 * number) { lone.acquire(key, wait: 5) { nil } }
    rescue Timeout::Error
      nil
    end
    GC.start
    eventually { cluster.servers.sum { |one| connections(one) } <= 3 * 20 }
    expect(store.acquire(key) { :entered }).to eq(:entered)
  end

  def connections(server) = server.call("CLIENT", "LIST").scan("name=plock-").size

  it "takes a lock once, though its map and the nodes say different things" do
    store.acquire(key) { nil }
    others = Array.new(3) { used(open_store(cluster.url)).tap { |one| one.acquire(key) { nil } } }
    cluster.move(slot, to)
    leases = others.map { |one| one.try_acquire(key, ttl: 60) }
    expect(leases.compact.size).to eq(1)
    expect(leases.compact.first.release).to be(true)
  end

  it "gives up in its time on a slot of which two nodes say that the other has it", :timing do
    impatient = used(open_store(cluster.url, attempt_timeout: 0.3))
    impatient.status(key)
    third = (cluster.primaries - [from, to]).first
    from.call("CLUSTER", "SETSLOT", slot, "NODE", to.call("CLUSTER", "MYID"))
    took = elapsed do
      impatient.acquire(key, wait: 0) { nil }
    rescue Plock::Error => e
      expect(e).to be_a(Plock::UnavailableError)
    end
    expect(took).to be < 1.0
  ensure
    [to, from, third].each { |one|
 one.call("CLUSTER", "SETSLOT", slot, "NODE", to.call("CLUSTER", "MYID")) }
    expect(store.acquire(key, wait: 10) { :entered }).to eq(:entered)
  end

  it "renews a lease whose slot moved between its grant and the first renewal" do
    lease = store.acquire(key, ttl: 1.2, renew: true)
    cluster.move(slot, to)
    sleep 2.5
    expect(lease).to be_valid
    expect(to.call("PTTL", lock)).to be > 0
    expect(lease.release).to be(true)
  end

  it "calls a waiter that came by ASK, and whose queue then moved" do
    lease = store.acquire(key, ttl: 60)
    waiter = nil
    cluster.move(slot, to, keys: [lock, Support::Scripts.companion(lock)]) do
      waiter = background { store.acquire(key, wait: 30) { :entered } }
      sleep 0.3
    end
    expect(lease.release).to be(true)
    expect(waiter.value).to eq(:entered)
  end
end
