# frozen_string_literal: true

require "spec_helper"

# Each lease of a key has a greater number than all leases before it, even if the server forgets
# its records.
RSpec.describe "The fence" do
  let(:server) { redis_server }
  let(:store) { open_store(server.url) }
  let(:key) { unique_key }
  let(:lock) { store.acquire(key, &:store_key) }

  def fence(**options) = store.acquire(key, **options, &:fence)

  def companion = "plock:1:{#{lock}}:fence"

  # One fence from before the block, and two from after it. The block changes something on the
  # server.
  def around
    before = fence
    yield
    [before, fence, fence]
  end

  # Expects each fence to be greater than the previous one.
  def grow =
    satisfy("grow") { |fences| fences.each_cons(2).all? { |earlier, later| earlier < later } }

  it "grows from lease to lease" do
    expect(Array.new(50) { fence }).to grow
  end

  it "grows when a lease has expired" do
    first = store.acquire(key, ttl: 0.05)
    expect([first.fence, fence(wait: 5)]).to grow
    expect(first).to be_lost
  end

  it "grows when a lease was broken" do
    first = store.acquire(key)
    store.break(key)
    expect([first.fence, fence]).to grow
    expect(first.release).to be false
  end

  it "grows when the server has been emptied" do
    expect(around { server.call("FLUSHALL") }).to grow
  end

  it "grows when the server has evicted its record" do
    lock
    expect(around { server.call("DEL", companion) }).to grow
  end

  it "grows when the server has been restarted, and remembers nothing" do
    expect(around { server.restart }).to grow
  end

  it "grows when the server's clock has been set back" do
    lock
    ahead = 100_000_000_000 # in microseconds; more than a day
    expect(around do
      number, rest = server.call("GET", companion).split(" ", 2)
      # as if it was written while the clock was ahead
      server.call("SET", companion, "#{number.to_i + ahead} #{rest}", "PX", 86_400_000)
    end).to grow.and(satisfy { |first, second, _| second > first + ahead })
  end

  # Rewrites the record and its expiry, as if the clock had been ahead by this many seconds.
  def set_back(seconds)
    number, rest = server.call("GET", companion).split(" ", 2)
    server.call(
      "SET", companion, "#{number.to_i + (seconds * 1_000_000)} #{rest}", "PX",
      server.call("PTTL", companion) + (seconds * 1_000)
    )
  end

  # docs/promises.md, "What each guarantee is worth": the server's clock is set back.
  it "grows when the server's clock is set back by up to fence_ttl and the key is idle meanwhile" do
    store = open_store(server.url, fence_ttl: 2)
    first = store.acquire(key, ttl: 0.05, &:fence)
    set_back(2)
    later = store.acquire(key, ttl: 0.05, &:fence)
    expect(later).to be > first + 2_000_000
    expect(server.call("PTTL", companion)).to be > 2_000 # lasts until the clock has caught up
  end

  def hold(from = store, name = key, **options) = discard(from.acquire(name, **options), :release)

  # docs/promises.md, "What each guarantee is worth": the server's clock is set forward. Then
  # Redis ends leases early.
  it "grows when a step of the server's clock ends a lease early, and the holder finds its loss" do
    first = hold(ttl: 30)
    server.call("PEXPIRE", first.store_key, 1)
    second = hold(wait: 5)
    expect([first.fence, second.fence]).to grow
    expect { first.extend }.to raise_error(Plock::LeaseLost)
  end

  def note_of(lease) = "plock:1:{#{lease.store_key}}:fence"
  def noted_for(lease) = server.call("PTTL", note_of(lease))

  describe "is not kept for ever: the server drops its record" do
    it "an hour after its lease" do
      expect(noted_for(hold(ttl: 10))).to be_between(3_605_000, 3_610_000)
    end

    it "fence_ttl after its lease" do
      [0, 1.5, 86_400].each do |seconds|
        reached = ((10 + seconds) * 1_000).to_i
        store = open_store(server.url, fence_ttl: seconds)
        expect(noted_for(hold(store, unique_key, ttl: 10))).to be_between(reached - 5_000, reached)
        places = store.semaphore(unique_key, permits: 2)
        expect(noted_for(discard(places.acquire(ttl: 10), :release))).to be_between(
          reached - 5_000, reached
        )
        leases = store.acquire_all([unique_key, unique_key], ttl: 10)
        leases.each { |lease| discard(lease, :release) }
        expect(leases.map { |lease| noted_for(lease) }).to all be_between(reached - 5_000, reached)
      end
    end

    it "also if the URL sets fence_ttl" do
      expect(noted_for(hold(open_store(server.url("fence_ttl=7")), ttl: 1))).to be_between(
        7_000, 8_000
      )
    end
  end

  # The record of a lease lasts as long as the lease, however long the lease is held. In these
  # examples, a second stands for hours.
  describe "is remembered while its lease lasts," do
    let(:store) { open_store(server.url, fence_ttl: 0) }

    def left(lease) = server.call("PTTL", lease.store_key)

    # A script reads both values, so that they are from the same moment.
    def left_and_noted(lease)
      server.call(
        "EVAL", "return {redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2])}", 2,
        lease.store_key, note_of(lease)
      )
    end

    def outlast =
      satisfy("outlast the lease") do |lease|
        left_and_noted(lease).then { |ends, noted| noted >= ends - 1 }
      end

    it "when it is extended" do
      lease = hold(ttl: 1)
      lease.extend(ttl: 60)
      expect(left(lease)).to be > 55_000
      expect(lease).to outlast
      expect(store.status(key)).to have_attributes(pid: Process.pid, fence: lease.fence)
    end

    it "when it is renewed" do
      lease = hold(ttl: 0.9, renew: true)
      3.times do
        reached = lease.valid_until
        eventually { lease.valid_until > reached }
      end
      expect(lease).to outlast
      expect(store.status(key)).to have_attributes(pid: Process.pid, fence: lease.fence)
    end

    it "when it is one of a group, and is extended" do
      places = store.semaphore(key, permits: 2)
      lease = discard(places.acquire(ttl: 1), :release)
      lease.extend(ttl: 60)
      expect(left(lease)).to be > 55_000
      expect(lease).to outlast
      expect(places.status.holders.map(&:fence)).to eq [lease.fence]
    end

    it "when its key is kept beyond its release, also in a group" do
      others = [unique_key, unique_key]
      leases =
        [store.acquire(key, ttl: 1, at_least: 30) { |lease| lease }] +
        store.acquire_all(others, ttl: 1, at_least: 30) { |all| all }
      expect(leases).to all outlast
      expect([key, *others].map { |name| store.status(name).pid }).to eq [Process.pid] * 3
    end

    it "when it is shortened: not for less than before" do
      lease = hold(ttl: 60)
      lease.extend(ttl: 1)
      expect(noted_for(lease)).to be > 55_000
    end
  end
end
