# frozen_string_literal: true

require "spec_helper"
require "support/failures"

# If a reply does not come, the server may still have executed the request.
RSpec.describe "A reply that never comes" do
  include Support::Failures

  let(:gate) { proxy }
  let(:store) { warm(open_store(gate.url)) }
  let(:key) { unique_key }

  before { store }

  silent = {
    "is swallowed" => ->(gate) { gate.swallow(:reply, connections: 1) },
    "is held back" => ->(gate) { gate.hold(:reply, connections: 1) }
  }
  # Each of these troubles closes the connection. If it was an idle connection of the pool, the
  # call repeats its request on another connection, and succeeds.
  closing = {
    "is cut off before its first byte" => ->(gate) { gate.cut(:reply, connections: 1) },
    "is cut off after three bytes" => ->(gate) { gate.cut(:reply, after_bytes: 3, connections: 1) },
    "ends in a reset" => ->(gate) { gate.reset(:reply, connections: 1) }
  }

  silent.each do |what, trouble|
    it "leaves no orphan lock when the reply to acquire #{what}", :no_leaks do
      trouble.call(gate)
      before = calls("evalsha")
      expect(attempt_failure(store, key).code).to eq(:silent)
      eventually { calls("evalsha") >= before + 2 }
      expect_no_orphan(key)
      expect_service(store)
    end

    it "ends by its budget when the reply to acquire #{what}", :timing do
      within_budget(Support::Failures::ATTEMPT_TIMEOUT) do
        trouble.call(gate)
        attempt_failure(store, unique_key)
      ensure
        gate.clear
      end
    end
  end

  closing.each do |what, trouble|
    it "is asked for again when the reply to acquire #{what}: the owner has the lock, and once",
       :no_leaks do
      trouble.call(gate)
      owner = Plock.token
      expect(store.lock_acquire(key, owner, 30)).to be(true)
      expect(shared_redis.call("GET", key)).to eq(owner)
      expect(store.lock_acquire(key, owner, 30)).to be(false)
      expect(store.lock_release(key, owner)).to be(true)
      expect(held?(key)).to be(false)
    end

    it "is no reason to let the owner of another's lease in when the reply to acquire #{what}" do
      owner = Plock.token
      other = open_store
      expect(other.lock_acquire(key, owner, 30)).to be(true)
      trouble.call(gate)
      expect(store.lock_acquire(key, owner, 30)).to be(false)
      expect(other.lock_release(key, owner)).to be(true)
    end
  end

  # First makes the server load the script. Otherwise, the lost reply would only say that the script
  # is unknown.
  def acquire_for_adoption
    store.adopt(store.acquire(unique_key).dump).release
    store.acquire(key, ttl: 30)
  end

  silent.each do |what, trouble|
    it "frees the key, and lets none in, when the reply to adopt #{what}", :no_leaks do
      lease = acquire_for_adoption
      name, dump = lease.store_key, lease.dump
      trouble.call(gate)
      expect { store.adopt(dump) { raise "entered" } }.to raise_error(Plock::UnavailableError) { |e|
        expect(e.code).to eq(:silent)
      }
      expect_no_orphan(name)
      expect { store.adopt(dump) { raise "entered" } }.to raise_error(Plock::LeaseLost)
    end
  end

  silent.each do |what, trouble|
    it "makes a writer a reader when the reply to downgrade #{what}, and it can ask again" do
      lock = store.read_write_lock("downgrade:#{key}")
      lock.write(&:downgrade) # loads the script on the server
      lease = lock.write(ttl: 30)
      trouble.call(gate)
      expect { lease.downgrade }.to raise_error(Plock::UnavailableError)
      gate.clear
      expect(lease).to have_attributes(mode: :read, valid?: true)
      expect(lease.downgrade.mode).to be(:read)
      expect(open_store.read_write_lock("downgrade:#{key}").try_read { true }).to be(true)
      expect { lease.downgrade }.to raise_error(Plock::UnsupportedError)
      expect(lease.release).to be(true)
    end
  end

  closing.each do |what, trouble|
    it "is asked for again when the reply to adopt #{what}: it is adopted once", :no_leaks do
      lease = acquire_for_adoption
      fence, dump = lease.fence, lease.dump
      trouble.call(gate)
      adopted = store.adopt(dump)
      expect(adopted).to have_attributes(valid?: true, fence: be > fence)
      expect(store.status(key).fence).to eq(adopted.fence)
      expect { store.adopt(dump) }.to raise_error(Plock::LeaseLost)
      expect(adopted.release).to be(true)
    end
  end

  it "is an error when it is cut off each time, and leaves no orphan lock", :no_leaks do
    gate.cut(:reply, after: "EVALSHA")
    expect(attempt_failure(store, key).code).to eq(:disconnected)
    gate.clear
    # There are at least two acquires, on the old connection and on a new one, and a release.
    gate.await(:request, key, times: 3)
    expect_no_orphan(key)
    expect_service(store)
  end

  silent.merge(closing).each do |what, trouble|
    it "does not stand in the way of a hold when the reply to acquire #{what}" do
      trouble.call(gate)
      token =
        store.hold(key, Support::Failures::TTL_MS, 5, nil) do |lease|
          lease.token == shared_redis.call("GET", key)
        end
      expect(token).to be(true)
      expect_no_orphan(key)
    end

    it "releases, and returns the value, when the reply to release #{what}" do
      value = store.hold(key, Support::Failures::TTL_MS, 1.0, ->(*) {}) do
        trouble.call(gate)
        :value
      end
      expect(value).to eq(:value)
      expect_no_orphan(key)
    end
  end

  it "is not needed when the request was lost, too: the connection is given up" do
    gate.half_open(connections: 1)
    expect(attempt_failure(store, key).code).to eq(:silent)
    expect_service(store)
    expect(held?(key)).to be(false)
  end

  it "ends by its budget when everything is half open, the undoing included", :timing do
    within_budget(0.2) do
      gate.half_open
      hold_failure(store)
    ensure
      gate.clear
    end
  end

  it "of a late answer does not reach the next call on the connection" do
    gate.hold(:reply, connections: 1)
    attempt_failure(store, key)
    gate.clear # now the late reply may arrive
    100.times { expect_service(store) }
  end
end
