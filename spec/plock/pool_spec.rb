# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "A pool with fewer connections than busy threads" do
  include Support::Failures

  threads = 25
  sections = 6_000 # the number of holds, of all threads together
  let(:ttl_ms) { Support::Failures::TTL_MS }
  let(:release_timeout) { 20 }
  let(:spans) { { command_timeout: 20, attempt_timeout: 20, release_timeout: release_timeout } }

  # Each thread acquires and releases a lock of its own, until all threads together have done so
  # `sections` times. Returns how many times each thread did so, and the failures.
  def sections_of_each(store, threads, sections)
    left = sections
    lock = Mutex.new
    failures = []
    report = ->(phase, *failure) { failures << [phase, *failure] }
    busy = Array.new(threads) do
      background do
        key = unique_key
        served = 0
        more = -> { lock.synchronize { (left -= 1) >= 0 } }
        served += 1 while more.call && store.hold(key, ttl_ms, 30, report) { true }
        served
      end
    end
    [busy.map(&:value), failures]
  end

  [1, 2, 16].each do |size|
    it "of #{size} fails no release, and serves every thread about as often" do
      store = warm(open_store(shared_redis.url, pool_size: size, **spans))
      served, failures = sections_of_each(store, threads, sections)
      expect(failures).to be_empty
      expect(served.sum).to eq(sections)
      expect(served.min).to be > sections / threads / 3
    end
  end

  describe "whose only connection is in use" do
    let(:gate) { proxy }
    let(:store) { warm(open_store(gate.url, pool_size: 1, **spans)) }

    def busy(&block)
      background(&block).tap { |thread| eventually { thread.stop? } }
    end

    # Returns the caller that uses the connection, and then the callers that queue for it, in
    # order.
    def line_up(count)
      store
      gate.hold(:reply, connections: 1)
      Array.new(count) { |place| busy { hold(place) } }
    end

    def hold(value) = store.hold(unique_key, ttl_ms, 20, nil) { value }

    it "goes past the threads that gave up: killed, interrupted or timed out", :no_leaks do
      first, killed, raised, last = line_up(4)
      timed_out = busy { Timeout.timeout(0.01) { hold(:entered) } }
      expect { timed_out.value }.to raise_error(Timeout::Error)
      killed.kill.join
      raised.raise(Interrupt)
      expect { raised.value }.to raise_error(Interrupt)
      gate.clear
      expect([first.value, last.value]).to eq([0, 3])
      expect_service(store)
    end

    it "goes on serving when the thread that it had been handed to is killed" do
      line_up(12).each_with_index do |thread, place|
        gate.clear if place == 6 # from here on, the pool serves the threads while they are killed
        thread.kill
      end
      expect_service(store)
    end

    context "for longer than a release may take" do
      let(:release_timeout) { 0.05 }

      it "fails no release: it goes on in the background, and nothing is said" do
        lease = store.acquire(unique_key, ttl: 30)
        line_up(1)
        expect(lease.release).to be(true)
        expect(held?(lease.store_key)).to be(true)
        gate.clear
        eventually { !held?(lease.store_key) }
      end

      it "fails no release of a group" do
        leases = store.acquire_all(Array.new(3) { unique_key }, ttl: 30)
        keys = leases.map(&:store_key)
        line_up(1)
        expect(store.release_all(leases.map(&:hold), 0.0, nil)).to eq([true] * 3)
        gate.clear
        eventually { keys.none? { |key| held?(key) } }
      end

      it "warns if the release has not succeeded when the lease ends" do
        heard = Queue.new
        allow(Plock::Log).to receive(:warn) { |_logger, message| heard << message }
        lease = store.acquire(unique_key, ttl: 0.3)
        line_up(1)
        expect(lease.release).to be(true)
        words = /\Athe lease on #{lease.store_key} \(.*\) could not be released in the background/
        expect(Timeout.timeout(10) { heard.pop }).to match(words)
        gate.clear
      end
    end

    it "belongs to no thread in a child of a fork", :many_children do
      first, second = line_up(2)
      expect(in_child { hold(:entered) }).to eq(:entered)
      gate.clear
      expect([first.value, second.value]).to eq([0, 1])
    end
  end
end
