# frozen_string_literal: true

require "spec_helper"
require "support/scripts"

# When Redis runs out of memory, it refuses commands that need memory, except in a script that has
# already written. So plock acquires no new locks, but loses none.
RSpec.describe "A Redis without memory" do
  let(:server) { redis_server }
  let(:store) { used(open_store(server.url, ttl: 0.9, **Support::Examples::PATIENT)) }
  let(:key) { "full:#{SecureRandom.hex(8)}" }

  def fill = server.call("CONFIG", "SET", "maxmemory", "1")

  shared_examples "it keeps what is held" do
    it "renews it as long as its block runs" do
      take do |lease|
        fill
        first = lease.valid_until
        eventually { lease.lost? || lease.valid_until > first + 1 }
        expect(lease).to be_valid
      end
    end

    it "extends it" do
      lease = take(ttl: 20)
      fill
      expect(lease.extend(ttl: 60).remaining).to be > 50
      expect(lease.release).to be(true)
    end

    it "releases it, and keeps it taken for at_least:" do
      lease = take(ttl: 20, at_least: 20)
      fill
      expect(lease.release).to be(true)
      expect(server.call("PTTL", lease.store_key)).to be > 10_000
    end
  end

  describe "and a lock" do
    def take(...) = store.acquire(key, ...)

    it_behaves_like "it keeps what is held"

    it "grants none" do
      fill
      hasty = open_store(server.url, attempt_timeout: 0.2)
      expect { hasty.acquire(key, wait: 0) }
        .to raise_error(an_object_having_attributes(code: :oom))
    end

    it "releases several, and keeps them taken for at_least:" do
      locks = store.acquire_all([key, "#{key}'"], ttl: 20, at_least: 20) do |leases|
        fill
        leases.map(&:store_key)
      end
      expect(server.call("EXISTS", *locks)).to eq(2)
    end
  end

  describe "and a permit" do
    def take(...) = store.semaphore(key, permits: 2).acquire(...)

    it_behaves_like "it keeps what is held"
  end

  describe "and a read lock" do
    def take(...) = store.read_write_lock(key).read(...)

    it_behaves_like "it keeps what is held"
  end

  describe "and a write lock" do
    def take(...) = store.read_write_lock(key).write(...)

    it_behaves_like "it keeps what is held"

    it "turns it into a read lock" do
      lease = take(ttl: 20)
      fill
      expect(lease.downgrade.mode).to be(:read)
      expect(lease.release).to be(true)
    end
  end

  describe "by its scripts" do
    let(:scripts) do
      Support::Scripts.new(
        server.client, "#{unique_key}#{Plock::Locking::Kind::READ_WRITE.suffix}"
      )
    end

    def one(**options) = Support::Sharer.new(scripts, "w", **options)

    it "calls a waiter when a share is released that has expired" do
      late = one(ttl: 300)
      expect(late.ask).to be(true)
      waiting = discard(one.listen(server), :close)
      waiting.queue
      eventually { server.call("EXISTS", scripts.lock).zero? }
      fill
      expect(late.release).to eq(0)
      expect(waiting.hears).to eq("+")
    end
  end
end
