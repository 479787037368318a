# frozen_string_literal: true

require "spec_helper"
require "support/failures"

# If a release or an undo does not reach the server, plock repeats it as soon as the server is
# back.
RSpec.describe "A release while the server is out of reach" do
  include Support::Failures

  let(:gate) { proxy }
  let(:key) { unique_key }
  let(:spans) { %i[connect attempt command release].to_h { |what| [:"#{what}_timeout", 0.05] } }
  let(:store) { warm(open_store(gate.url, **spans)) }

  long = 3_600 # seconds, so that no lease expires during an example

  before { store }

  # Accepts new connections but never answers them, and closes all open connections.
  def go_dark
    gate.silent
    gate.disconnect
  end

  # Waits until the worker thread has tried for longer than release_timeout.
  def stay_dark(tries: 4)
    seen = gate.accepted
    eventually(20) { gate.accepted >= seen + tries }
  end

  def light_up
    gate.forward
    gate.disconnect
  end

  def failing
    yield
    raise "nothing failed"
  rescue Plock::UnavailableError => e
    e
  end

  def expect_free(*keys)
    eventually(5, "a key stays on the server") { keys.none? { |key| held?(key) } }
  end

  # Expects that the leases are still held while the server cannot be reached, and are released when
  # it can be reached again.
  def expect_released_later(*leases)
    keys = leases.map(&:store_key)
    expect(keys.map { |key| held?(key) }).to all(be(true))
    go_dark
    codes = leases.map { |lease| failing { lease.release }.code }
    expect(codes - %i[silent disconnected]).to be_empty
    stay_dark
    light_up
    expect_free(*keys)
  end

  it "keeps no lock of an acquire whose reply was lost" do
    patient = spans.merge(command_timeout: 5, attempt_timeout: 5)
    own = warm(open_store(gate.url, **patient))
    gate.hold(:reply, connections: 1)
    asking = background { failing { own.lock_acquire(key, Plock.token, long) } }
    eventually { held?(key) }
    go_dark
    asking.value
    stay_dark
    gate.clear
    light_up
    expect_free(key)
  end

  it "is asked again for the release that failed" do
    expect_released_later(store.acquire(key, ttl: long))
  end

  it "is asked again for the release of a lease that is renewed" do
    expect_released_later(store.acquire(key, ttl: long, renew: true))
  end

  it "is asked again for the release of a semaphore" do
    expect_released_later(store.semaphore(key, permits: 2).acquire(ttl: long))
  end

  it "is asked again for a group" do
    expect_released_later(*store.acquire_all(Array.new(3) { unique_key }, ttl: long))
  end

  # How each kind of lock is held while a block runs.
  blocks = {
    "a lock" => ->(store, key, block) { store.acquire(key, ttl: long, &block) },
    "a semaphore" => ->(store, key, block) {
      store.semaphore(key, permits: 2).acquire(ttl: long, &block)
    },
    "a lock that is read" => ->(store, key, block) {
      store.read_write_lock(key).read(ttl: long, &block)
    },
    "a lock that is written" => ->(store, key, block) {
      store.read_write_lock(key).write(ttl: long, &block)
    },
    "a group" => ->(store, key, block) {
      store.acquire_all([key, "#{key}:2"], ttl: long) { |leases| block.call(leases.first) }
    }
  }

  blocks.each do |what, holds|
    it "is asked again at the end of a block that holds #{what}" do
      names = []
      said = warnings do
        value = holds.call(store, key, ->(lease) {
          names << lease.store_key
          go_dark
          :value
        })
        expect(value).to be(:value)
      end
      expect(said).to contain_exactly(match(/could not be released/))
      expect(held?(names.first)).to be(true)
      stay_dark
      light_up
      expect_free(*names)
    end
  end

  it "is asked again for a once whose block failed" do
    warnings do
      expect do
        store.once(key, within: long) do
          go_dark
          raise IOError, "the block's own"
        end
      end.to raise_error(IOError)
    end
    stay_dark
    light_up
    other = open_store(shared_redis.url)
    eventually(5) { other.once(key, within: long) { nil }.ran? }
  end

  it "keeps a key taken for at_least, and no longer" do
    lease = store.acquire(key, ttl: long, at_least: 2)
    go_dark
    failing { lease.release }
    stay_dark
    light_up
    eventually(5) { shared_redis.call("PTTL", lease.store_key) <= 2_000 }
    expect_free(lease.store_key)
  end

  it "gets many releases done soon, on no more connections than the pool has", :slow, :timing do
    server = redis_server
    gate.upstream = server
    own = warm(open_store(gate.url, **spans, pool_size: 8))
    groups = Array.new(80) { own.acquire_all(Array.new(64) { unique_key }, ttl: long) }
    keys = groups.flatten.map(&:store_key)
    expect(server.call("EXISTS", *keys)).to eq(5_120)
    go_dark
    groups.each { |leases| failing { own.release_all(leases.map(&:hold), 0.0, nil) } }
    stay_dark
    light_up
    eventually(10, "keys stay on the server") { server.call("EXISTS", *keys).zero? }
    expect(server.connections).to be <= 8
  end
end
