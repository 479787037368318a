# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "A lease that is lost" do
  include Support::Failures

  let(:store) { open_store }
  let(:key) { unique_key }

  def expired = eventually { !held?(key) }

  it "is not valid after it expires, and its release leaves the next holder's lock alone" do
    store.hold(key, 1_000, 5.0, nil) do |lease|
      expect(lease).to be_valid
      expired
      expect(lease).not_to be_valid
      shared_redis.call("SET", key, "another", "PX", 60_000)
    end
    expect(shared_redis.call("GET", key)).to eq("another")
  end

  it "is not valid while the server may already have let it expire: a margin is kept", :timing do
    at_most(0.2) do
      store.hold(key, 200, 5.0, nil) do |lease|
        nil while lease.valid?
        lease.held_for
      end
    end
  end

  it "passes to another store of plock's in order: the fence grows" do
    other = open_store
    fences = []
    store.hold(key, 100, 5.0, nil) do |first|
      fences << first.fence
      other.hold(key, Support::Failures::TTL_MS, 10.0, nil) do |second|
        fences << second.fence
        expect(shared_redis.call("GET", key)).to eq(second.token)
      end
    end
    expect(fences).to eq(fences.sort.uniq)
  end

  def holder_who_is_killed(ttl_ms)
    key
    holder = child do |parent|
      open_store.hold(key, ttl_ms, 5.0, nil) do
        parent.tell(:held)
        sleep
      end
    end
    holder.hear
    holder.signal(:KILL)
    holder.wait
  end

  it "passes to another holder when the lease of a killed holder expires" do
    holder_who_is_killed(300)
    expect(store.hold(key, Support::Failures::TTL_MS, 10.0, nil) { :entered }).to eq(:entered)
  end

  it "passes to no other holder before that time, however the holder died" do
    holder_who_is_killed(60_000)
    expect(hold_failure(store, key, wait: 0.05)).to be_a(Plock::TimeoutError)
    expect(shared_redis.call("PTTL", key)).to be_between(1, 60_000)
  end
end
