# frozen_string_literal: true

# Failures that a store with a remote server must survive. The group that includes these examples
# defines four names. `line` is the proxy between `store` and its server. `direct` is a store on the
# same server without the proxy. `store_with(**budgets)` makes a store like `store`.
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

  describe "when its server falls silent", :timing do
    let(:store) { store_with(attempt_timeout: 0.3, unavailable_timeout: 30) }

    it "ends by wait:, even in a repeated attempt" do
      store.acquire(key) { nil }
      line.swallow_all(:reply)
      [0.4, 0.5].each do |wait|
        within_budget(wait, least: wait) do
          expect { store.acquire(key, wait: wait) { raise "entered" } }.to raise_error(
            Plock::UnavailableError
          )
        end
      end
    end

    it "ends by wait: for several keys, too" do
      keys = [key, "#{key}:2"]
      store.acquire_all(keys) { nil }
      line.swallow_all(:reply)
      within_budget(0.5, least: 0.5) do
        expect { store.acquire_all(keys, wait: 0.5) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
      end
    end

    it "ends by wait: while another holds the key, and keeps no place" do
      lease = direct.acquire(key, ttl: 30)
      at_most(0.5 + Support::Patience::MARGIN, least: 0.5) do
        waiter = background { waited(0.5) }
        eventually { store.status(key).waiters.any? }
        line.swallow_all(:reply)
        waiter.value.tap { line.clear }
      end
      lease.release
      expect(direct.acquire(key, wait: 10) { :entered }).to be(:entered)
    end

    # Seconds that the call took.
    def waited(wait)
      elapsed do
        expect { store.acquire(key, wait: wait) { raise "entered" } }.to raise_error(
          Plock::TimeoutError
        )
      end
    end
  end
end
