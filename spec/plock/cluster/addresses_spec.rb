# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/scripts"
require "support/failures"
require "support/reactor"
require "support/store_contract"

RSpec.describe "The address of a Redis Cluster", needs: Support::RedisServer::PROGRAM do
  include Support::Failures
  include Support::StoreContract

  before(:all) { @cluster = Support::Cluster.new(replicas: 0) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:key) { "cluster:#{SecureRandom.hex(8)}" }

  # The port of a server that accepts connections, but never answers.
  def silent = discard(TCPServer.new("127.0.0.1", 0), :close).local_address.ip_port

  # A port that refuses connections.
  def closed
    discard(Support::Port.claim { |port| Support::Port.bound(port) }, :close).local_address.ip_port
  end

  def at(*ports, **options)
    places = ports.map { |port| "127.0.0.1:#{port}" }.join(",")
    open_store("redis+cluster://#{places}", **options)
  end

  def through(...) = used(at(...))

  it "needs any one of the nodes, whichever others are dead or silent", :timing, :slow do
    live = cluster.servers.first.port
    [[closed, live], [live, closed], [silent, live], [live, silent], [silent, closed, live],
     [silent, silent, silent, live]].each do |ports|
      took = elapsed { expect(through(*ports).acquire(key, wait: 2) { :in }).to eq(:in) }
      expect([ports, took]).to match([ports, be < 0.5])
    end
  end

  it "gives up as soon as one address would, if all are silent", :timing, :slow do
    took = elapsed do
      expect { through(silent, silent, silent).acquire(key, wait: 0) { nil } }
        .to raise_error(Plock::UnavailableError, /redis\+cluster:/)
    end
    expect(took).to be < 1.0
  end

  it "is of no use without a descriptor: a call fails at once, and the next one works",
     :timing, :slow do
    failure, took, value = in_child do
      store = open_store(cluster.url, attempt_timeout: 5, connect_timeout: 5)
      failed = nil
      took = elapsed { failed = without_descriptors { attempt_failure(store) } }
      [[failed.class.name, failed.code], took, store.acquire(key) { :entered }]
    end
    expect(failure).to eq(["Plock::UnavailableError", :descriptors])
    expect(took).to be < 1.0
    expect(value).to eq(:entered)
  end

  it "is refused if it is that of a Redis that stands alone, with the remedy" do
    server = redis_server
    expect { through(server.port).acquire(key, wait: 5) { nil } }
      .to raise_error(Plock::ConfigurationError, %r{127\.0\.0\.1:#{server.port}.*redis://})
  end

  # With `wait: 0`, the call ends while the store still waits for the silent nodes. With `wait: 3`,
  # it gives up after `unavailable_timeout`, which ends before `connect_timeout` here. The errors
  # must report the refusals nevertheless.
  it "is refused if half of the nodes refuse it, even if the others are silent", :timing do
    alone, other = redis_server, redis_server
    [0, 0.5, 3].each do |wait|
      store = at(alone.port, silent, other.port, silent, attempt_timeout: 1, connect_timeout: 2)
      expect { store.acquire(key, wait:) { nil } }
        .to raise_error(Plock::ConfigurationError, %r{127\.0\.0\.1:#{alone.port}.*redis://})
    end
  end

  it "names a node that refuses it, if more are silent", :timing do
    alone = redis_server
    [0, 0.5, 3].each do |wait|
      store = at(silent, alone.port, silent, attempt_timeout: 0.5, connect_timeout: 2)
      expect { store.acquire(key, wait:) { nil } }
        .to raise_error(Plock::UnavailableError, %r{127\.0\.0\.1:#{alone.port}.*redis://})
    end
  end

  it "is refused as that of one Redis, with the remedy" do
    server = cluster.servers.first
    expect { open_store(server.url).acquire(key, wait: 5) { nil } }
      .to raise_error(Plock::UnsupportedError, %r{127\.0\.0\.1:#{server.port}.*redis\+cluster://})
  end

  it "has no database but 0" do
    expect { open_store("#{cluster.url}/1") }
      .to raise_error(Plock::ConfigurationError, /only the database 0/)
    expect { open_store(cluster.url, database: 2) }
      .to raise_error(Plock::ConfigurationError, /only the database 0/)
  end

  it "is of no use to a key with a brace, of which the parts would be apart" do
    store = through(cluster.servers.first.port)
    ["{b}#{key}", "#{key}}", "#{key}{}{b}"].each do |name|
      expect { store.lock_acquire(name, "me", 3) }
        .to raise_error(Plock::UnsupportedError, /without braces/)
    end
    ["#{key}{b", "#{key}{b}c", "#{key}}{b}"].each do |name|
      expect(store.lock_acquire(name, "me", 3)).to be(true)
      expect(store.lock_release(name, "me")).to be(true)
    end
  end

  it "gives each key a short hash tag, and the same to what stands beside it" do
    store = through(cluster.servers.first.port, namespace: "tags")
    lease = store.acquire(key, ttl: 60)
    waiter = background { store.acquire(key, wait: 60) { :entered } }
    eventually { store.status(key).waiters.size == 1 }
    digest = Plock.digest(key).insert(8, "}")
    owner = cluster.owner(lease.store_key)
    names = owner.call("KEYS", "*#{digest}*")
    expect(names).to include(lease.store_key, Support::Scripts.queue(lease.store_key))
    expect(names.map { |name| name[/\{(.*?)\}/, 1] }.uniq).to eq([digest[0, 8]])
    expect(lease.store_key).to eq("plock:v1:tags:{#{digest}")
    expect([lease.release, waiter.value]).to eq([true, :entered])
  end

  # The fingerprint of the secret has a separate key. That key may be on another node than the
  # lock, so the store may have a connection to one other node.
  it "keeps one connection to the key's node, and at most one to the others" do
    store = open_store("redis+cluster://127.0.0.1:#{cluster.servers.first.port}")
    owner = cluster.owner(store.status(key).store_key)
    20.times { store.acquire(key) { nil } }
    eventually { (cluster.servers - [owner]).sum { |one| ours(one) } <= 1 }
    expect(ours(owner)).to eq(1)
  end

  it "keeps a single connection in all when it is not used for some time", :slow do
    store = through(cluster.servers.first.port)
    keys = cluster.spread(key)
    keys.map { |name| background { store.acquire(name) { sleep 0.05 } } }.each(&:join)
    expect(cluster.servers.map { |one| ours(one) }).to all(be_positive)
    eventually(20.0) { cluster.servers.sum { |one| ours(one) } == 1 }
    expect(store.acquire_all(keys) { :entered }).to eq(:entered)
  end

  def ours(server) = server.call("CLIENT", "LIST").scan("name=plock-#{Process.pid} ").size

  it "names the node of an error" do
    store = through(cluster.servers.first.port)
    owner = cluster.owner(store.status(key).store_key)
    owner.call("CONFIG", "SET", "maxmemory", "1")
    expect { store.acquire(key, wait: 0) { nil } }
      .to raise_error(Plock::UnavailableError, %r{redis\+cluster://127\.0\.0\.1:#{owner.port}})
  ensure
    owner.call("CONFIG", "SET", "maxmemory", "0")
  end

  it "acquires keys of several slots, all or none" do
    store = through(cluster.servers.first.port)
    keys = cluster.spread(key)
    held = store.acquire(keys[5], ttl: 30)
    expect { store.acquire_all(keys, wait: 0.3) { nil } }.to raise_error(Plock::TimeoutError)
    expect(keys.count { |name| store.status(name).held? }).to eq(1)
    held.release
    inside = store.acquire_all(keys, wait: 2) { keys.count { |name| store.status(name).held? } }
    expect(inside).to eq(9)
    expect(keys.count { |name| store.status(name).held? }).to eq(0)
  end

  it "waits with one channel and three more connections at each node for 1,000 fibers", :fibers do
    store = through(cluster.servers.first.port, pool_size: 3, command_timeout: 20)
    names = cluster.spread(key, each: 10)
    held = names.map { |name| store.acquire(name, ttl: 60, wait: 5) }
    entered = Queue.new
    fibers = background { wait_in_fibers(store, names, 1_000, entered) }
    eventually(30.0) { cluster.servers.sum { |one| queued(one) } == 1_000 }
    channels = cluster.servers.map { |one| one.call("PUBSUB", "CHANNELS", "plock:*").size }
    expect(channels).to eq([1, 1, 1])
    expect(cluster.servers.map { |one| ours(one) }).to all(be <= 4)
    held.each(&:release)
    fibers.join(60)
    expect(entered.size).to eq(1_000)
    expect(cluster.servers.map { |one| ours(one) }).to all(be <= 4)
  end

  def wait_in_fibers(store, names, count, entered)
    Async do |task|
      count.times do |number|
        task.async { store.acquire(names[number % names.size], wait: 60) { entered << number } }
      end
    end
  end

  def queued(server)
    queues = server.call("KEYS", "plock:1:plock:v1:{*:queue")
    queues.sum { |queue| server.call("ZCARD", queue) }
  end
end
