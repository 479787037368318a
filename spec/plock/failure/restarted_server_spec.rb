# frozen_string_literal: true

require "spec_helper"
require "support/failures"
require "support/scripts"

RSpec.describe "A server that comes back as another" do
  include Support::Failures

  let(:server) { redis_server }
  let(:store) { warm(open_store(server.url)) }

  # Expects that neither a single attempt nor a hold fails.
  def expect_nothing_noticed
    key = unique_key
    owner = Plock.token
    expect(store.lock_acquire(key, owner, 3)).to be(true)
    expect(store.lock_release(key, owner)).to be(true)
    expect_service(store, server)
  end

  it "has forgotten the scripts: they are loaded again" do
    store
    server.call("SCRIPT", "FLUSH")
    expect_nothing_noticed
  end

  it "forgets the scripts while the lock is held: it is still released" do
    key = unique_key
    store.hold(key, Support::Failures::TTL_MS, 1.0, nil) { server.call("SCRIPT", "FLUSH") }
    expect(held?(key, server)).to be(false)
  end

  it "has killed our idle connection: another is made" do
    store
    server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    eventually { server.connections.zero? }
    expect_nothing_noticed
  end

  it "kills our connection while the lock is held: it is released through another" do
    key = unique_key
    reports = []
    value = store.hold(key, Support::Failures::TTL_MS, 1.0, ->(*report) { reports << report }) do
      server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      :value
    end
    expect([value, held?(key, server), reports]).to eq([:value, false, []])
  end

  it "kills our connection while we wait for the lock: we go on waiting" do
    key = unique_key
    server.call("SET", key, "somebody", "PX", 60_000)
    before = calls("evalsha", server)
    holder = background { store.hold(key, 3_000, 20, ->(*) {}) { :entered } }
    eventually { calls("evalsha", server) > before }
    server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server.call("DEL", key)
    expect(holder.value).to eq(:entered)
  end

  it "was restarted between two calls" do
    store
    server.restart
    expect_nothing_noticed
  end

  it "is down for a while during a hold's wait" do
    store
    server.kill
    codes = Queue.new
    holder =
      background do
        store.hold(unique_key, 3_000, 20, ->(_, error) { codes << error.code }) { :entered }
      end
    expect(%i[connect disconnected]).to include(codes.pop)
    server.restart
    expect(holder.value).to eq(:entered)
  end

  it "was restarted while the lock was held, and has lost it: another holder keeps its own" do
    key = unique_key
    store.hold(key, Support::Failures::TTL_MS, 1.0, ->(*) {}) do
      server.restart
      server.call("SET", key, "somebody else")
    end
    expect(server.call("GET", key)).to eq("somebody else")
  end

  it "is a replica now, and the address leads to the new master: plock reconnects" do
    master = redis_server
    gate = proxy(server)
    store = warm(open_store(gate.url))
    server.call("REPLICAOF", "127.0.0.1", master.port.to_s)
    gate.upstream = master
    key = unique_key
    codes = []
    there = store.hold(key, 3_000, 2.0, ->(_, error) { codes << error.code }) { held?(key, master) }
    expect(there).to be(true)
    expect(codes - [:readonly]).to be_empty
    expect(held?(key, master)).to be(false)
  end

  describe "is a replica now, and had the channel of the waiters" do
    let(:master) { redis_server(config: { "repl-diskless-sync-delay" => "0" }) }
    let(:gate) { proxy(server) }
    let(:store) { warm(open_store(gate.url)) }

    def demote = server.call("REPLICAOF", "127.0.0.1", master.port.to_s)

    def channel(server) = server.call("CLIENT", "LIST", "TYPE", "pubsub")[/^id=\d+/]

    # Starts threads that wait in this order. Each adds its number to a queue when it enters.
    def waiters_for(lease, server, count)
      entered = Queue.new
      queue = Support::Scripts.queue(lease.store_key)
      count.times do |number|
        background { store.acquire(lease.key, wait: 60) { entered << number } }
        eventually { server.call("ZCARD", queue) == number + 1 }
      end
      entered
    end

    def expect_waiters_at(server)
      lease = store.acquire(unique_key, ttl: 60, wait: 5)
      entered = waiters_for(lease, server, 3)
      expect(channel(server)).not_to be_nil
      lease.release
      expect(Array.new(3) { entered.pop }).to eq([0, 1, 2])
    end

    it "and the address leads to the new master: the channel is opened there" do
      expect_waiters_at(server)
      demote
      gate.upstream = master
      expect_waiters_at(master)
    end

    # When the address at last leads to the new master, no idle connection to the old server is
    # left, and no renewal is due. So only the channel can reveal that the store uses an old server.
    it "and the address leads to the new master later: the channel that came back is left, too" do
      lease = store.acquire(unique_key, ttl: 60, renew: true)
      before = await_watch(lease)
      demote
      eventually { !held?(lease.store_key, server) } # the server has the data of the new master
      expect(attempt_failure(store).code).to eq(:readonly)
      eventually { ![nil, before].include?(channel(server)) }
      gate.upstream = master
      server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
      expect_waiters_at(master)
      expect(lease.release).to be(false)
    end

    # Returns when the server's record of the lease names the channel. After that, the lease is
    # not renewed for a while.
    def await_watch(lease)
      listener = eventually { channel(server) }
      name = server.call("PUBSUB", "CHANNELS").first[/\h+\z/]
      note = Support::Scripts.companion(lease.store_key)
      eventually { server.call("GET", note).include?(name) }
      listener
    end
  end
end
