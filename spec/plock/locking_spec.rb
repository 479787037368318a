# frozen_string_literal: true

require "spec_helper"
require "support/store_contract/helpers"

# The contract (support/store_contract.rb) tests the behaviour that all stores share. The examples
# here are about failures. Their store is in memory, and fails when an example tells it to.
RSpec.describe Plock::Locking do
  let(:failing) { {} }
  let(:store) do
    failing = self.failing
    Class.new(Plock::Testing::MemoryStore) do
      %i[take take_all release_all adopt_hold examine keys_after break_hold].each do |name|
        define_method(name) do |*arguments, &block|
          failing[name] ? raise(failing[name]) : super(*arguments, &block)
        end
      end
    end.new
  end
  let(:failure) { Plock::UnavailableError.new("no answer", code: :connect) }

  after do
    failing.clear
    store.break("k")
  end

  # Makes the release of this lease fail in the store.
  def fail_to_release(lease)
    failure = self.failure
    lease.hold.define_singleton_method(:release) { |_keep| raise failure }
  end

  it "raises the store's error, and does not enter the block" do
    %i[take break_hold keys_after adopt_hold examine].each { |name| failing[name] = failure }
    dump = Plock::Testing::MemoryStore.new.acquire("k").dump
    [
      -> { store.acquire("k") { raise "entered" } },
      -> { store.try_acquire("k") { raise "entered" } }, -> { store.acquire("k") },
      -> { store.break("k") }, -> { store.status("k") }, -> { store.each_lock { nil } },
      -> { store.adopt(dump) }
    ].each { |call| expect { call.call }.to raise_error(failure) }
  end

  it "leaves unknown facts out of a TimeoutError's message" do
    store.acquire("k") do
      failing[:examine] = failure
      expect { store.acquire("k", wait: 0) { nil } }.to raise_error(Plock::TimeoutError) { |error|
        expect(error).to have_attributes(
          message: 'could not acquire "k" within 0.0 s', code: :timed_out, status: nil, cause: nil
        )
      }
    end
  end

  it "does not mistake another lease's loss for a failure of the store" do
    store.acquire("k") do
      failing[:examine] = failing[:take_all] = Plock::LeaseLost.new("that of a block further out")
      expect { store.acquire("k", wait: 0) { raise "entered" } }.to raise_error(Plock::LeaseLost)
      expect { store.acquire_all(%w[k j], wait: 0) { raise "entered" } }.to raise_error(
        Plock::LeaseLost
      )
    end
  end

  it "returns the block's value if the release fails, and warns" do
    heard =
      warnings do
        expect(store.acquire("k", ttl: 7) { |lease| fail_to_release(lease) && :value }).to be(
          :value
        )
      end
    error = /Plock::UnavailableError: no answer/
    expect(heard).to match([/the lease on "k" could not be released \(#{error}\).* within 7.0 s/])
  end

  it "raises the block's exception if the release fails as well" do
    heard = warnings do
      expect do
        store.acquire("k") { |lease| fail_to_release(lease) && raise(IOError, "the block's own") }
      end.to raise_error(IOError)
    end
    expect(heard.size).to be(1)
  end

  it "raises to a caller that releases the lease itself" do
    store.acquire("k") do |lease|
      fail_to_release(lease)
      expect { lease.release }.to raise_error(failure)
    end
  end

  it "lets the block raise even a store's errors" do
    expect { store.acquire("k") { raise Plock::TimeoutError, "the block's own" } }.to raise_error(
      Plock::TimeoutError, "the block's own"
    )
    expect(store.status("k")).not_to be_held
  end

  describe "with several keys" do
    let(:keys) { %w[a b c].sort_by { |key| store.status(key).store_key } }

    def held = keys.select { |key| store.status(key).held? }

    # Makes the store unable to take all keys at once, as if they were in different places.
    def scatter
      store.define_singleton_method(:take_all) { |*| nil }
      store.singleton_class.send(:private, :take_all)
    end

    def replace_take(&block)
      store.define_singleton_method(:take, &block)
      store.singleton_class.send(:private, :take)
    end

    # Like scatter, but also replaces the `extend` of each hold by the block. The block receives
    # the original `extend`.
    def scatter_extended_by(&extending)
      scatter
      replace_take do |*arguments, &given|
        super(*arguments) do |hold|
          own = hold.method(:extend)
          hold.define_singleton_method(:extend) { |ttl| extending.call(own, ttl) }
          given.call(hold)
        end
      end
    end

    it "raises the store's error, and holds no key" do
      failing[:take_all] = failure
      expect { store.acquire_all(keys, wait: 0) { raise "entered" } }.to raise_error(failure)
      expect { store.try_acquire_all(keys) { raise "entered" } }.to raise_error(failure)
      failing[:take] = failure
      expect { store.acquire_all(keys, wait: 5) { raise "entered" } }.to raise_error(failure)
      expect(held).to be_empty
    end

    it "keeps trying a store that fails until wait: is over" do
      failing[:take_all] = failure
      expect(store.acquire_all(keys, wait: 5) { held }).to eq(keys)
      expect(held).to be_empty
    end

    it "does not enter the block with a lease that expired before all keys were acquired" do
      # The first lease expires while the store acquires the second.
      scatter_extended_by { |own, ttl| own.call(ttl).tap { sleep(ttl * 1.1) } }
      other = store.acquire(keys[2], ttl: 0.05)
      expect { store.acquire_all(keys, ttl: 0.1, wait: 0.2) { raise "entered" } }.to raise_error(
        Plock::TimeoutError, /one of 3 keys/
      )
      expect(held).to be_empty
      expect(other).not_to be_valid
    end

    it "goes on within wait: if the store fails while it extends the leases that it has" do
      failed = false
      scatter_extended_by { |own, ttl| failed ? own.call(ttl) : (failed = true) && raise(failure) }
      other = store.acquire(keys[2], ttl: 0.05)
      expect(store.acquire_all(keys, ttl: 10, wait: 5) { [failed, held] }).to eq([true, keys])
      expect(held).to be_empty
      expect(other).not_to be_valid
    end

    # Both errors mean that the caller ran out of time while waiting: for a connection from the pool
    # (saturated), or for the server's reply (silent).
    %i[silent saturated].each do |code|
      it "counts as refused if the end of wait: cuts an attempt short after a refusal (#{code})" do
        replace_take do |_name, _ttl, patience, *|
          sleep(patience)
          raise Plock::UnavailableError.new("cut short", code: code)
        end
        other = store.acquire_all([keys[1]], wait: 0).first
        expect { store.acquire_all(keys, wait: 0.01) { raise "entered" } }.to raise_error(
          Plock::TimeoutError, /"#{keys[1]}", one of 3 keys/
        )
        expect(held).to eq([keys[1]])
        other.release
      end
    end

    it "does not hide an error that is not a failure of the store" do
      failing[:take_all] = IOError.new("another thread's")
      expect { store.acquire_all(keys, wait: 5) { raise "entered" } }.to raise_error(IOError)
    end

    it "acquires one key after the other if the store cannot acquire them at once" do
      scatter
      expect(store.acquire_all(keys.reverse, wait: 0) { |leases| [leases.map(&:key), held] }).to eq(
        [keys.reverse, keys]
      )
      expect(held).to be_empty
    end

    it "releases what it has if the store acquires one key after the other, and one is held" do
      scatter
      lease = store.acquire(keys[1], label: "there before")
      expect(store.try_acquire_all(keys) { raise "entered" }).to be_nil
      expect { store.acquire_all(keys, wait: 0.01) { raise "entered" } }.to raise_error(
        Plock::TimeoutError, /"#{keys[1]}", one of 3 keys/
      )
      expect(held).to eq([keys[1]])
      lease.release
    end

    it "leaves no lease behind if it is interrupted while it acquires one key after the other",
       :slow do
      extend Support::StoreContract
      scatter
      interrupted_everywhere(-> { store.acquire_all(keys, wait: 1) { nil } }) do
        expect(held).to be_empty
      end
    end

    it "returns the block's value if the release fails, and warns once" do
      heard = warnings do
        expect(
          store.acquire_all(keys, ttl: 7) { (failing[:release_all] = failure) && :value }
        ).to be(:value)
      end
      leases = /the leases on "\w", "\w", "\w"/
      error = /Plock::UnavailableError: .*/
      expect(heard).to match([/#{leases} could not be released \(#{error}\).* within 7.0 s/])
      failing.clear
      keys.each { |key| store.break(key) }
    end

    it "raises the block's exception if the release fails as well" do
      heard = warnings do
        expect {
          store.acquire_all(keys) { (failing[:release_all] = failure) && raise(IOError) }
        }.to raise_error(IOError)
      end
      expect(heard.size).to be(1)
      failing.clear
      keys.each { |key| store.break(key) }
    end

    it "raises the TimeoutError if it cannot release what it has, and warns" do
      lease = store.acquire(keys[2])
      failing[:release_all] = failure
      heard =
        warnings do
          expect { store.acquire_all(keys, wait: 0.3) }.to raise_error(Plock::TimeoutError)
        end
      expect(heard).to match([/could not be released/])
      failing.clear
      lease.release
      keys.each { |key| store.break(key) }
    end
  end

  describe "#each_lock_within" do
    let(:now) { [1_000.0] }

    before { allow(Plock::Clock).to receive(:now) { now[0] } }

    # A server that needs a second for each step of a listing.
    def list_in_steps(*steps)
      allow(store).to receive(:keys_after) do |_prefix, cursor|
        now[0] += 1
        place = cursor || 0
        [steps[place % steps.size], place + 1]
      end
    end

    def names(within, found = [])
      [store.each_lock_within(within) { |status| found << status.store_key }, found]
    end

    it "ends in its time if a listing never ends, whatever the keys" do
      leases = Array.new(2) { |number| discard(store.acquire(number.to_s), :release) }
      keys = leases.map(&:store_key)
      list_in_steps(keys.take(1), [], keys)
      expect(names(5)).to eq([false, keys])
      expect(names(1)).to eq([false, keys.take(1)])
      list_in_steps([])
      expect(names(5)).to eq([false, []])
    end

    it "says that there was time for all" do
      lease = discard(store.acquire("k"), :release)
      expect(names(0.1)).to eq([true, [lease.store_key]])
    end
  end

  it "leaves out, and warns of, a key that the server cannot read; other failures are raised" do
    lease = discard(store.acquire("k"), :release)
    failing[:examine] = Plock::Error.new("WRONGTYPE", code: :server)
    expect(warnings { expect(store.each_lock.to_a).to be_empty })
      .to match([/#{lease.store_key} cannot be read, so it is left out: WRONGTYPE/])
    failing[:examine] = failure
    expect { store.each_lock.to_a }.to raise_error(failure)
  end

  it "accepts a duration or a Rational as a number of seconds" do
    expect(store.acquire("k", ttl: 3r / 2, &:ttl)).to eq(1.5)
  end

  it "works in a Ractor, and refuses on_lost: there" do
    output, status = ruby(<<~RUBY, shared_redis.unix_url)
      require "plock"
      Warning[:experimental] = false
      Plock.subscribe { nil } # other Ractors do not see it
      p Ractor.new(*ARGV) { |url|
        store = Plock::Store.open(url, namespace: "ractor")
        refused = begin
          store.acquire("k", on_lost: :raise) { nil }
        rescue Plock::UnsupportedError => e
          e.message
        end
        renewed = store.acquire("k", renew: true) { |lease| lease.valid? }
        [renewed, store.acquire("k").release, refused, store.status("k").held?]
      }.take
    RUBY
    expect(status).to be_success, output
    expect(output).to eq(
      %([true, true, "on_lost: belongs to the main Ractor: elsewhere ask lease.lost?", false]\n)
    )
  end
end
