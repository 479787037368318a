# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/scripts"
require "support/store_contract"

# Each example begins with three primaries. Each primary has a replica.
RSpec.describe "A store on a Redis Cluster that loses a node", :slow, :alone,
               needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  let!(:cluster) { discard(Support::Cluster.new(failover: true), :stop) }
  let(:store) { used(open_store(cluster.url, unavailable_timeout: 30)) }
  let!(:key) { "failover:#{SecureRandom.hex(8)}" }
  let(:lock) { store.status(key).store_key }
  let(:slot) { cluster.slot(lock) }
  let(:primary) { cluster.owner_of(slot) }

  def replicate = Support::Replication.await(primary, 1)

  it "keeps a lease that the replica knows, and renews it there" do
    lease = store.acquire(key, ttl: 6, wait: 5, renew: true)
    replicate
    primary.kill
    after = cluster.await_another(primary, slot)
    expect(lease.extend).to be(lease)
    expect([lease.valid?, lease.lost?]).to eq([true, false])
    expect(after.call("PTTL", lock)).to be > 3_000
    expect(lease.release).to be(true)
    expect(after.call("EXISTS", lock)).to eq(0)
  end

  it "leaves a primary that is stopped, and tells of a lease that the new one lacks" do
    told = Queue.new
    lease = store.acquire(key, ttl: 60, wait: 5, renew: true, on_lost: ->(_) { told << monotonic })
    replicate
    primary.stop_process
    after = cluster.await_another(primary, slot)
    eventually(5.0) { extends?(lease) }
    after.call("DEL", lock)
    expect { lease.extend }.to raise_error(Plock::LeaseLost)
    eventually(5.0) { !told.empty? }
  ensure
    primary.continue_process
  end

  it "tells within a second of a lease that was lost with its primary" do
    told = Queue.new
    replica = cluster.replica_of(primary)
    replicate
    replica.stop_process
    primary.call("CLIENT", "KILL", "TYPE", "replica")
    lease = store.acquire(key, ttl: 60, wait: 5, renew: true, on_lost: ->(_) { told << monotonic })
    primary.kill
    replica.continue_process
    cluster.await_another(primary, slot)
    since = monotonic
    eventually(5.0) { !told.empty? }
    expect(told.pop - since).to be < 1.0
    expect(lease).to be_lost
  ensure
    replica.continue_process
  end

  # Returns false if the call fails. The first call after the old primary has stopped may fail,
  # because the call may spend its whole time waiting for that primary.
  def extends?(lease)
    lease.extend
  rescue Plock::UnavailableError
    false
  end

  it "serves 30 waiters in their order after the primary was killed" do
    holder = store.acquire(key, ttl: 60, wait: 5)
    order = Queue.new
    waiters = Array.new(30) do |number|
      wait_in_line(number + 1) { store.acquire(key, wait: 60) { order << number } }
    end
    replicate
    primary.kill
    after = cluster.await_another(primary, slot)
    eventually(20.0) { requests(after) >= 30 && count(after) == 30 }
    expect(holder.release).to be(true)
    waiters.each { |waiter| waiter.join(30) }
    expect(Array.new(order.size) { order.pop }).to eq((0...30).to_a)
  end

  def count(server) = server.call("ZCARD", Support::Scripts.queue(lock))

  # How many scripts the server has run. When the channel to a new primary opens, each waiter runs
  # one script on that primary, and so asks for its place in the queue.
  def requests(server)
    stats = server.call("INFO", "commandstats")[/cmdstat_evalsha:(.*)/, 1].to_s
    stats[/\bcalls=(\d+)/, 1].to_i - stats[/failed_calls=(\d+)/, 1].to_i
  end

  it "serves the other primaries' keys all the time" do
    others = Array.new(30) { |number| "#{key}:#{number}" }
    others.reject! { |name| cluster.owner(store.status(name).store_key) == primary }
    primary.kill
    took = others.map { |name| elapsed { store.acquire(name, wait: 1) { nil } } }
    expect(took.max).to be < 0.5
  end

  it "gives up in its time if no node is left" do
    impatient = used(open_store(cluster.url, unavailable_timeout: 1))
    impatient.acquire(key) { nil }
    cluster.servers.each(&:kill)
    took = elapsed do
      expect { impatient.acquire(key, wait: 20) { nil } }.to raise_error(Plock::UnavailableError)
    end
    expect(took).to be < 3.0
  end

  it "finds a slot at a node that was added, and goes on when a node is removed" do
    store.acquire(key) { nil }
    added = cluster.add
    cluster.move(slot, added)
    lease = store.acquire(key, ttl: 60, wait: 2)
    expect(added.call("EXISTS", lock)).to eq(1)
    cluster.move(slot, (cluster.primaries - [added]).first)
    added.kill
    expect(lease.extend).to be(lease)
    expect(lease.release).to be(true)
  end

  it "names the node that refuses the credentials, and serves the keys of the others" do
    cluster.servers.each { |one| admit(one) }
    store = used(open_store(cluster.url(user: "plock:pw"), unavailable_timeout: 1))
    store.acquire(key) { nil }
    primary.call("ACL", "SETUSER", "plock", "resetpass", ">other")
    primary.call("CLIENT", "KILL", "USER", "plock")
    expect { store.acquire(key) { nil } }
      .to raise_error(Plock::AuthenticationError, /127\.0\.0\.1:#{primary.port}/)
    other = Array.new(30) { |number| "#{key}:#{number}" }
                 .find { |name| cluster.owner(store_key(name)) != primary }
    expect(store.acquire(other) { :entered }).to eq(:entered)
  end

  def store_key(name) = open_store(cluster.url).status(name).store_key

  def admit(server) = server.call("ACL", "SETUSER", "plock", "on", ">pw", "~*", "&*", "+@all")
end
