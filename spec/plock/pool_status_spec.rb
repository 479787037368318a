# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/pool"
require "support/store_contract"

RSpec.describe Plock::PoolStatus do
  describe "of a store on Redis" do
    let(:gate) { proxy }
    let(:spans) { { command_timeout: 20, attempt_timeout: 20, release_timeout: 20 } }
    let(:store) { used(open_store(gate.url, pool_size: 1, **spans)) }

    it "tells how many connections are in use, and how many calls wait or have waited" do
      expect(store.pool_status.to_a).to eq([1, 0, 1, 0, 0])
      gate.hold(:reply)
      threads = Array.new(3) do |number|
        background { store.acquire("#{unique_key}#{number}", wait: 20) { nil } }
      end
      eventually { store.pool_status.waiting == 2 }
      expect(store.pool_status.to_a).to eq([1, 1, 0, 2, 2])
      gate.clear
      threads.each(&:join)
      expect(store.pool_status).to have_attributes(used: 0, idle: 1, waiting: 0, waits: be >= 2)
    end

    it "counts nothing of the parent in a forked child" do
      store
      gate.hold(:reply)
      thread = background { store.acquire(unique_key, wait: 20) { nil } }
      eventually { store.pool_status.used == 1 }
      waiter = background { store.acquire(unique_key, wait: 20) { nil } }
      eventually { store.pool_status.waiting == 1 }
      expect(in_child { store.pool_status.to_a }).to eq([1, 0, 0, 0, 0])
      gate.clear
      [thread, waiter].each(&:join)
    end
  end

  describe "of a store in Ruby" do
    include Support::StoreContract

    connection = Class.new do
      def usable? = true
      def finished? = true
      def close = nil
      def discard = nil
    end
    let(:pool) { Plock::Store::Pool.new(1) { connection.new } }
    let(:soon) { Plock::Clock.now + 20 }

    it "tells the same" do
      expect(pool.status.to_a).to eq([1, 0, 0, 0, 0])
      gate = Queue.new
      holder = background { pool.with(soon) { gate.pop } }
      eventually { pool.status.used == 1 }
      killed, waiter = Array.new(2) { background { pool.with(soon) { :served } } }
      eventually { pool.status.waiting == 2 }
      killed.kill.join
      expect(pool.status.to_a).to eq([1, 1, 0, 1, 2])
      expect(in_child { pool.status.to_a }).to eq([1, 0, 0, 0, 0])
      gate << true
      expect([holder, waiter].map(&:value)).to eq([true, :served])
      expect(pool.status.to_a).to eq([1, 0, 1, 0, 2])
    end

    # If the signal comes before the pool has opened a connection, the pool has no idle connection
    # afterwards. Otherwise, it has one.
    it "counts a connection once, at whatever step a signal handler raises" do
      steps = (1..500).find do |step|
        cut_off = interrupted_at(step, by_signal: true) { pool.with(soon) { nil } }
        expect([step, pool.status.used, pool.status.idle]).to match([step, 0, (be <= 1)])
        expect(pool.with(soon) { :served }).to be(:served)
        open_ones = pool.instance_variable_get(:@all).size
        expect([step, open_ones]).to eq([step, pool.status.idle])
        !cut_off
      end
      expect(steps).to be > 5
    end

    it "counts no call that waits, at whatever step a signal handler raises" do
      leave = Queue.new
      holder = background { pool.with(soon) { leave.pop } }
      eventually { pool.status.used == 1 }
      steps = (1..500).find do |step|
        cut_off = interrupted_at(step, by_signal: true) do
          pool.with(Plock::Clock.now + 0.001) { nil }
        rescue Plock::UnavailableError
          nil
        end
        expect([step, pool.status.used, pool.status.waiting]).to eq([step, 1, 0])
        !cut_off
      end
      leave << true
      holder.join
      expect([pool.with(soon) { :served }, steps > 20]).to eq([:served, true])
    end

    it "counts a call that gave up" do
      holding = Queue.new
      holder = background { pool.with(soon) { holding.pop } }
      eventually { pool.status.used == 1 }
      expect { pool.with(Plock::Clock.now) { nil } }.to raise_error(Plock::UnavailableError)
      expect(pool.status.to_a).to eq([1, 1, 0, 0, 1])
      holding << true
      holder.join
    end
  end

  it "is nil for a store without connections" do
    expect(Plock::Store.open("memory:").pool_status).to be_nil
    store = open_store("local:#{Support::Supervisor.folder}/pool-status/locks")
    expect(store.pool_status).to be_nil
  end
end
