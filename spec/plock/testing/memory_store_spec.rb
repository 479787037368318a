# frozen_string_literal: true

require "spec_helper"
require "support/store_contract"

RSpec.describe Plock::Testing::MemoryStore do
  let(:name) { SecureRandom.hex(8) }
  let(:store) { Plock::Store.open("memory:#{name}") }
  let(:opener) { ->(**options) { Plock::Store.open("memory:#{name}", **options) } }

  include Support::StoreContract

  it_behaves_like "a store"

  describe "#advance" do
    let(:told) { [] }

    it "ends leases" do
      lease = hold("k", ttl: 10)
      store.advance(9.9)
      expect(lease).to have_attributes(
        valid?: true, remaining: be_between(0.01, 0.2), held_for: be > 9.8
      )
      store.advance(0.1)
      expect(lease).to have_attributes(valid?: false, lost?: true, remaining: 0.0)
      expect(store.try_acquire("k") { :free }).to be(:free)
    end

    it "has told of losses when it returns" do
      hold("k", ttl: 10, on_lost: ->(lease) { told << lease.key })
      store.advance(9)
      expect(told).to be_empty
      store.advance(1)
      expect(told).to eq(["k"])
    end

    it "raises in the block" do
      expect { store.acquire("k", ttl: 10, on_lost: :raise) { store.advance(10) } }.to raise_error(
        Plock::LeaseLost
      )
    end

    it "renews on the way, up to max_hold:" do
      lease = hold("k", ttl: 10, renew: true, max_hold: 3_600)
      store.advance(3_599)
      expect(lease).to be_valid
      store.advance(1)
      expect(lease).to be_lost
    end

    it "reports the renewals on the way" do
      subscription = Plock.subscribe(:renew) { |event| told << event.name }
      store.acquire("k", ttl: 9, renew: true) { store.advance(10) }
      expect(told).to eq(%i[renew renew renew])
    ensure
      Plock.unsubscribe(subscription)
    end

    it "serves waiters when the holder's time is over, in order" do
      hold("k", ttl: 10)
      served = Queue.new
      waiters = Array.new(3) do |number|
        thread = background { store.acquire("k", ttl: 10, wait: 60) { served << number } }
        eventually { store.status("k").waiters.size == number + 1 }
        thread
      end
      store.advance(10)
      waiters.each(&:join)
      expect(Array.new(3) { served.pop }).to eq([0, 1, 2])
    end

    it "ends a wait, before the lease expires and when it does" do
      hold("k", ttl: 30)
      waiter = background { store.try_acquire("k", wait: 20) || :gave_up }
      eventually { store.status("k").waiters.size == 1 }
      store.advance(19)
      expect(waiter).to be_alive
      store.advance(1)
      expect(waiter.value).to be(:gave_up)
    end

    it "moves fences, at_least: and since with it" do
      lease = hold("k", at_least: 3_600)
      store.advance(1_800)
      expect(store.status("k").since).to be_within(5).of(Time.now - 1_800)
      lease.release
      expect(store.status("k").remaining).to be_between(1_790, 1_800)
      store.advance(1_800)
      expect(store.acquire("k", &:fence)).to be >= lease.fence + 3_600_000_000
    end

    it "ends shares, each at its time, and admits the waiters" do
      semaphore = store.semaphore("k", permits: 2)
      leases = [10, 20].map { |ttl| kept(semaphore.acquire(ttl: ttl)) }
      waiters = Array.new(2) do |number|
        wait_in_line(number + 1, semaphore) do
          semaphore.acquire(ttl: 100, wait: 60) { semaphore.status.holders.size }
        end
      end
      store.advance(9)
      expect([leases.map(&:valid?), semaphore.status.waiters.size]).to eq([[true, true], 2])
      store.advance(1)
      expect(waiters.map(&:value)).to all(eq(2))
      store.advance(10)
      expect(leases).to all(be_lost)
    end

    it "renews shares, and ends a dead reader's" do
      lock = store.read_write_lock("k")
      leases =
        [{ renew: true }, {}].map { |options| background { lock.read(ttl: 10, **options) }.value }
      store.advance(10)
      expect(leases.map(&:valid?)).to eq([true, false])
      expect(lock.try_write).to be_nil
      leases.first.release
      expect(lock.try_write { :entered }).to be(:entered)
    end

    it "admits readers when the wait of the writer before them ends" do
      lock = store.read_write_lock("k")
      lease = background { lock.read(ttl: 3_600) }.value
      writer = wait_in_line(1, lock) { lock.try_write(wait: 20) || :gave_up }
      reader = wait_in_line(2, lock) { lock.read(ttl: 3_600, wait: 60) { :entered } }
      store.advance(20)
      expect([writer.value, reader.value]).to eq(%i[gave_up entered])
      lease.release
    end

    it "counts for the wait of callers that want several keys" do
      keys = %w[a b c].sort_by { |key| store.status(key).store_key }
      leases = [0, 2].map { |number| hold(keys[number], ttl: 3_600) }
      waiter = background { store.try_acquire_all(keys, ttl: 3_600, wait: 20) || :gave_up }
      await_waiters(1, keys[0])
      store.advance(19)
      leases[0].release
      await_waiters(1, keys[2])
      store.advance(1)
      expect(waiter.value).to be(:gave_up)
      expect(store.each_lock.map(&:store_key)).to eq([leases[1].store_key])
    end

    it "opens the window of once again" do
      runs =
        [0, 9, 1].map do |seconds|
          store.advance(seconds) || store.once("k", within: 10) { nil }.ran?
        end
      expect(runs).to eq([true, false, true])
    end

    it "does not go back" do
      expect { store.advance(-1) }.to raise_error(ArgumentError)
    end
  end

  describe "#lose!" do
    it "has told the holder when it returns" do
      told = []
      store.acquire("k", on_lost: ->(lease) { told << lease.lost? }) do
        expect(store.lose!("k")).to be(true)
        expect(told).to eq([true])
      end
      expect(store.lose!("k")).to be(false)
    end

    it "takes a share away from all its holders" do
      lock = store.read_write_lock("k")
      told = Queue.new
      2.times { kept(background { lock.read(on_lost: ->(lease) { told << lease.mode }) }.value) }
      expect(store.lose!(lock.status)).to be(true)
      expect(told.size).to be(2)
    end
  end

  describe "by name" do
    it "is shared in the process, and without a name it is not" do
      Plock::Store.open("memory:shared").acquire("k") do
        expect(Plock::Store.open("memory:shared").try_acquire("k")).to be_nil
        expect(Plock::Store.open("memory:other").try_acquire("k") { :free }).to be(:free)
      end
      Plock::Store
        .open("memory:")
        .acquire("k") do
          expect(Plock::Store.open("memory:").try_acquire("k") { :free }).to be(:free)
        end
    end

    it "is shown" do
      store = Plock::Store.open("memory:shared")
      expect(store).to have_attributes(
        url: "memory:shared", inspect: /memory:shared/, unverified?: false
      )
    end

    it "keeps namespaces and secrets apart" do
      one, two, three =
        [{ namespace: "one" }, { namespace: "two" }, { secret: "s" * 16 }].map do |options|
          Plock::Store.open("memory:apart", **options)
        end
      one.acquire("k") do
        expect(
          [two, three].map { |store| store.acquire("k", wait: 0) { store.each_lock.count } }
        ).to eq([1, 1])
        expect(one.each_lock.count).to be(1)
      end
    end
  end

  it "takes no options that are about servers" do
    expect { Plock::Store.open("memory:", pool_size: 4) }.to raise_error(
      Plock::ConfigurationError, /pool_size/
    )
    expect { Plock::Store.open("memory:", patience: 4) }.to raise_error(ArgumentError, /patience/)
  end

  it "serves owners whom the caller names, as a front door needs it" do
    expect(store.lock_acquire("k", "me", 3)).to be(true)
    expect(store.lock_acquire("k", "you", 3)).to be(false)
    expect(store.lock_release("k", "you")).to be(false)
    expect(store.lock_release("k", "me")).to be(true)
    expect(store.lock_acquire("k", "you", 3)).to be(true)
  end

  it "can be closed" do
    expect { store.close }.to change(store, :closed?).from(false).to(true)
  end

  it "leaves nothing behind: no lock, and after a while no thread" do
    backend = store.instance_variable_get(:@backend)
    others = Thread.list # leases of other examples may still need these threads
    hold("k", ttl: 0.01, on_lost: ->(_) {})
    eventually { backend.instance_variable_get(:@locks).empty? }
    eventually { (Thread.list - others).none? { |thread| thread.name == "plock scheduler" } }
  end

  describe "and an interrupt" do
    let(:backend) { store.instance_variable_get(:@backend) }

    # Yields a callable that makes another thread hold the backend's mutex. When this thread waits
    # for the mutex, a signal handler raises in this thread.
    def interrupted
      raised = Queue.new
      before = trap(:USR1) { raised << true && raise(IOError, "a signal") }
      expect { yield(-> { keep_busy(Thread.current, raised) }) }.to raise_error(IOError, "a signal")
    ensure
      trap(:USR1, before)
    end

    def keep_busy(other, raised)
      taken = Queue.new
      goes_on = false
      background do
        backend.enter do
          taken << true
          eventually { goes_on }
          await_sleep(other) && Process.kill(:USR1, Process.pid)
          raised.pop
        end
      end
      taken.pop
      goes_on = true
    end

    it "carry out the release of a lease" do
      lease = hold("k", ttl: 60)
      interrupted do |keep_busy|
        keep_busy.call
        lease.release
      end
      eventually { !store.status("k").held? }
    end

    it "carry out the release of a block, and keep the key for the rest of at_least:" do
      interrupted { |keep_busy| store.acquire("k", ttl: 60, at_least: 30) { keep_busy.call } }
      eventually { store.status("k").remaining < 31 }
    end

    it "admit readers to a lease that the call has turned into a reader's" do
      lock = store.read_write_lock("k")
      downgrade = backend.method(:downgrade)
      allow(backend).to receive(:downgrade) do |lease|
        downgrade.call(lease).tap { Thread.new(Thread.current) { |main| main.raise(IOError) }.join }
      end
      lock.write(ttl: 60) do |lease|
        reader = wait_in_line(1, lock) { lock.try_read(wait: 60) { :entered } }
        expect { lease.downgrade }.to raise_error(IOError)
        expect([lease.mode, reader.join(5)&.value]).to eq(%i[read entered])
      end
    end
  end

  describe "#take!" do
    it "holds the key as another owner, without events, until it is released" do
      told = []
      subscription = Plock.subscribe(/acquire|release|lost|wait/) { |event| told << event.name }
      taken = store.take!("k", label: "web-2")
      store.advance(86_400)
      expect(store.status("k")).to have_attributes(held?: true, label: "web-2")
      expect([taken.release, taken.release]).to eq([true, false])
      expect(told).to be_empty
      expect(store.try_acquire("k") { :free }).to be(:free)
    ensure
      Plock.unsubscribe(subscription)
    end

    it "lets waiters in when it is released, and refuses a key that is held" do
      taken = store.take!("k")
      waiter = background { store.acquire("k", wait: 60) { :mine } }
      eventually { store.status("k").waiters.any? }
      taken.release
      expect(waiter.value).to be(:mine)
      store.acquire("k") { expect { store.take!("k") }.to raise_error(ArgumentError, /is held/) }
    end
  end

  describe "#down!" do
    it "has each request fail, until #up!" do
      lease = hold("held", ttl: 60)
      store.down!
      [
        -> { store.acquire("k") }, -> { store.try_acquire("k") },
        -> { store.acquire_all(%w[k l]) }, -> { store.status("k") }, -> { store.break("k") },
        -> { store.each_lock.to_a }, -> { store.take!("k") }, -> { lease.extend(ttl: 30) },
        -> { store.lock_acquire("k", "o", 3) }
      ].each do |request|
        expect { request.call }.to raise_error(Plock::UnavailableError, /is down, as the test says/)
      end
      expect(lease).to be_valid
      store.up!
      expect(store.acquire("k") { :mine }).to be(:mine)
    end

    it "keeps the key of a release that failed, until #up! or the end of the lease" do
      warnings { store.acquire("k", ttl: 60) { store.down! } }
      store.up!
      expect(store.status("k").held?).to be(false)
      warnings { store.acquire("k", ttl: 60) { store.down! } }
      store.advance(61)
      store.up!
      expect(store.acquire("k", wait: 0) { :free }).to be(:free)
    end

    it "keeps none of several keys beyond #up!" do
      heard = warnings { store.acquire_all(%w[k l m], ttl: 60) { store.down! } }
      expect(heard).to match([/the leases on "k", "l", "m" could not be released/])
      store.up!
      expect(%w[k l m].map { |key| store.status(key).held? }).to eq([false] * 3)
    end

    it "has renewals fail: a lease is lost with its ttl, or renewed in time after #up!" do
      lost = []
      first = hold("k", ttl: 9, renew: true, on_lost: ->(lease) { lost << lease.key })
      store.advance(4)
      store.down!
      store.advance(4)
      expect(first).to be_valid
      store.up!
      store.advance(20)
      expect(first).to be_valid
      store.down!
      store.advance(9)
      expect(lost).to eq(["k"])
    end

    it "ends with the test" do
      Plock::Testing.install(&:down!)
      Plock::Testing.install { |fresh| expect(fresh.acquire("k") { :mine }).to be(:mine) }
    end
  end
end
