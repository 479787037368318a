# frozen_string_literal: true

# Failures that a store with a remote server must survive. The group that includes these examples
# defines three names: `store`, `line`, which is the proxy between `store` and its server, and
# `direct`, which is a store on the same server without the proxy.
RSpec.shared_examples "a store whose server is far" do
  it "replaces a connection that is lost while it is idle" do
    store.acquire(key) { nil }
    line.disconnect
    expect(store.acquire(key, wait: 0) { :entered }).to be(:entered)
    eventually(10, "a lease is left behind") do
      direct.status(key).then { |status| !status.held? && status.waiters.empty? }
    end
  end

  it "renews over a connection that is lost" do
    store.acquire(key, ttl: 2, renew: true) do |lease|
      first = lease.valid_until
      line.disconnect
      eventually(5) { Plock::Clock.now > first }
      expect(lease).to be_valid
      expect(direct.try_acquire(key)).to be_nil
    end
  end

  # There are far more threads than the pool has connections.
  it "a silent server does not hold up a long wait while other calls use all connections",
     :timing do
    store.acquire(key) { nil }
    line.swallow_all(:reply)
    failed = []
    Array.new(20) do
      background do
        loop do
          store.status(key)
        rescue Plock::UnavailableError => e
          failed << e.code
        end
      end
    end
    eventually { failed.include?(:saturated) }
    took =
      elapsed do
        expect { store.acquire(key, wait: 6) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
      end
    expect(took).to be_between(0.9, 2.5)
  end
end
