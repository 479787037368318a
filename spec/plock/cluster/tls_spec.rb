# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/failures"
require "support/files_that_go"
require "support/moving_slots"

RSpec.describe "TLS with a Redis Cluster", :slow, needs: Support::RedisServer::PROGRAM do
  include Support::Failures
  include Support::FilesThatGo
  include Support::MovingSlots

  before(:all) { @cluster = Support::Cluster.new(replicas: 0, kind: :tls) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:ca) { { ca_file: Support::Certificates.ca.cert_file } }
  let(:key) { "tls:#{SecureRandom.hex(8)}" }

  it "serves the keys of all nodes, and waiters" do
    store = used(open_store(cluster.url, **ca))
    keys = cluster.spread(key)
    expect(keys.map { |name| store.status(name).node }.uniq.size).to eq(3)
    expect(store.acquire_all(keys) { :entered }).to eq(:entered)
    lease = store.acquire(key, ttl: 30)
    waiter = background { store.acquire(key, wait: 20) { :entered } }
    eventually { store.status(key).waiters.any? }
    lease.release
    expect(waiter.value).to eq(:entered)
  end

  it "keeps a lease and its waiter whose slot moves to another node" do
    store = used(open_store(cluster.url, **ca))
    lease = store.acquire(key, ttl: 30, renew: true)
    waiter = background { store.acquire(key, wait: 20) { store.status(key).node } }
    eventually { store.status(key).waiters.any? }
    slot = cluster.slot(lock = store.status(key).store_key)
    to = (cluster.primaries - [cluster.settled_owner(slot)]).first
    cluster.move(slot, to)
    expect(to.call("EXISTS", lock)).to eq(1)
    expect([lease.extend, lease.release]).to eq([lease, true])
    expect(waiter.value).to eq("127.0.0.1:#{to.port}")
  end

  it "never lets two in, while slots move to and fro under load" do
    options = { **Support::MovingSlots::PATIENT, connect_timeout: 5, **ca }
    rooms = move_under_load(cluster, used(open_store(cluster.url, **options)), key)
    expect(rooms.map(&:most)).to all(eq(1))
    expect(rooms.sum(&:count)).to be > 100
  end

  it "goes on if the files are out of reach, also with a node that it has not met" do
    store = open_store(cluster.url, attempt_timeout: 5, connect_timeout: 5, **files)
    first, *others = cluster.spread(key, each: 1)
    lease = store.acquire(first, ttl: 60)
    files_go
    expect(others.map { |name| store.acquire(name) { :entered } }).to all(eq(:entered))
    cluster.servers.each { |one| one.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }
    expect(lease.release).to be(true)
    expect(store.acquire_all([first, *others]) { :entered }).to eq(:entered)
  end

  it "is refused if no authority vouches for the nodes" do
    expect { used(open_store(cluster.url)).acquire(key, wait: 0) }
      .to raise_error(Plock::Error, /127\.0\.0\.1:\d+.*certificate/i)
  end

  it "is asked for by the URL, in its budget", :timing do
    plain = cluster.url.sub("rediss", "redis")
    took = elapsed do
      expect { used(open_store(plain)).acquire(key, wait: 0) }.to raise_error(
        Plock::Error, Regexp.new('\Aredis\+cluster://.*the node 127\.0\.0\.1:\d+: ' \
                                 'the connection broke.*use rediss\+cluster://')
      )
    end
    expect(took).to be < 1.5
  end

  it "with nodes that do not speak it names one of them, in its budget", :timing do
    port = redis_server.port
    took = elapsed do
      expect { used(open_store("rediss+cluster://127.0.0.1:#{port}", **ca)).acquire(key, wait: 0) }
        .to raise_error(Plock::Error, /127\.0\.0\.1:#{port}.*do they speak TLS/)
    end
    expect(took).to be < 1.5
  end
end
