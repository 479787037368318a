# frozen_string_literal: true

RSpec.shared_examples "a store that is acquired" do
  describe "#acquire" do
    it "returns the block's value, and the key is free after it" do
      expect(store.acquire(key) { free? }).to be(false)
      expect_free
    end

    it "releases whichever way the block is left" do
      expect { store.acquire(key) { raise IOError, "the block's own" } }.to raise_error(IOError)
      catch(:out) { store.acquire(key) { throw :out } }
      store.acquire(key) { break }
      [1].each { store.acquire(key) { next } }
      expect_free
    end

    it "returns a lease without a block, which holds until it is released" do
      lease = hold
      expect(lease).to be_a(Plock::Lease)
      expect(store.try_acquire(key)).to be_nil
      expect(lease.release).to be(true)
      expect_free
    end

    it "does not enter the block while another caller holds the key" do
      lease = hold(ttl: Support::StoreContract::LONG)
      expect { store.acquire(key, wait: 0.02) { raise "entered" } }.to raise_error(
        Plock::TimeoutError
      )
      expect { store.acquire(key, wait: 0) { raise "entered" } }.to raise_error(Plock::TimeoutError)
    ensure
      lease&.release
    end

    it "does not take one key for another" do
      store.acquire(key) { expect(store.acquire("#{key}'", wait: 0) { :entered }).to be(:entered) }
    end

    it "takes a Symbol for the String of the same name" do
      store.acquire(key.to_sym) { expect(store.try_acquire(key)).to be_nil }
    end

    it "takes keys of any bytes, and up to 1024 of them" do
      ["\x00\xFF".b, "kéy #{key}", key.ljust(1024, "k")].each do |any|
        expect(store.acquire(any) { |lease| lease.key == any }).to be(true)
      end
    end

    it "gives a waiter the lock when it is released" do
      lease = hold(ttl: Support::StoreContract::LONG)
      waiter = background { store.acquire(key, wait: Support::StoreContract::LONG, &:fence) }
      await_waiters(1)
      lease.release
      expect(waiter.value).to be > lease.fence
    end

    it "says in a TimeoutError who holds it, since when, and how many wait" do
      lease = hold(ttl: Support::StoreContract::LONG, label: "the nightly run")
      line_up(2) { nil }
      expect { store.acquire(key, wait: 0.05) { nil } }.to raise_error(
        Plock::TimeoutError
      ) { |error|
        since = /\d{4}-\d\d-\d\d [\d:]{8}\.\d{3} UTC/
        expect(error.message).to match(
          /\Acould not acquire "#{key}" within 0.05 s: held since #{since} by /
        )
        holder = /host \S+, pid #{Process.pid}, thread \d+, label "the nightly run"/
        expect(error.message).to match(
          /#{holder}, \d waiting#{Support::StoreContract::AT_NODE}\z/
        )
        expect(error).to have_attributes(
          code: :timed_out, status: have_attributes(fence: lease.fence, pid: Process.pid)
        )
      }
    ensure
      lease&.release
    end

    it "ends by its budget", :timing do
      lease = hold(ttl: Support::StoreContract::LONG)
      for_as_long_as(0.05) { store.try_acquire(key, wait: 0.05) }
      within_budget(0) { store.try_acquire(key) }
      for_as_long_as(0.05) do
        expect { store.acquire(key, wait: 0.05) { nil } }.to raise_error(Plock::TimeoutError)
      end
    ensure
      lease&.release
    end
  end

  describe "#try_acquire" do
    it "returns a lease, or nil if another caller holds it" do
      lease = store.try_acquire(key)
      expect(lease).to be_valid
      expect(store.try_acquire(key)).to be_nil
      lease.release
    end

    it "returns the block's value, or nil where the block has not run" do
      expect(store.try_acquire(key) { store.try_acquire(key) { :inner } || :refused }).to be(
        :refused
      )
      expect_free
    end

    it "waits where it is told to" do
      holder = hold(ttl: Support::StoreContract::LONG)
      waiter =
        background { store.try_acquire(key, wait: Support::StoreContract::LONG) { :entered } }
      await_waiters(1)
      holder.release
      expect(waiter.value).to be(:entered)
    end
  end

  describe "a wrong argument" do
    {
      key: [[nil], [""], [7], ["k" * 1025]],
      "ttl:" => [["k", { ttl: 0 }], ["k", { ttl: 0.004 }], ["k", { ttl: 31_622_401 }],
                 ["k", { ttl: nil }], ["k", { ttl: "10" }], ["k", { ttl: Float::NAN }]],
      "wait:" => [["k", { wait: -1 }], ["k", { wait: Float::INFINITY }], ["k", { wait: nil }]],
      "renew:" => [["k", { renew: 1 }]],
      "max_hold:" => [["k", { max_hold: 5, ttl: 5 }], ["k", { max_hold: 5, renew: false }],
                      ["k", { max_hold: 0, renew: true }]],
      "at_least:" => [["k", { at_least: -1 }], ["k", { at_least: nil }]],
      "on_lost:" => [["k", { on_lost: 5 }], ["k", { on_lost: :shout }]],
      "label:" => [["k", { label: "" }], ["k", { label: "l" * 101 }], ["k", { label: 5 }],
                   ["k", { label: "\xFF" }]],
      "unknown keyword" => [["k", { patience: 5 }]]
    }.each do |named, calls|
      it "raises an ArgumentError that names #{named}" do
        calls.each do |(key, options)|
          %i[acquire try_acquire].each do |method|
            expect {
              store.public_send(method, key, **options.to_h) { raise "entered" }
            }.to raise_error(ArgumentError, /#{named}/)
          end
        end
      end
    end

    it "raises where on_lost: :raise has no block to raise in" do
      expect { store.acquire(key, on_lost: :raise) }.to raise_error(ArgumentError, /block/)
      expect_free
    end
  end
end
