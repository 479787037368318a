# frozen_string_literal: true

require "spec_helper"
require "plock/store/memcached"
require "support/memcached"
require "support/store_contract"

Dalli.logger.level = Logger::FATAL # otherwise, Dalli would log each failure that the examples cause

# Tests promises about late answers, interrupted callers, slow requests, fibers, and listeners that
# raise.
RSpec.describe Plock::Store::Memcached, needs: Support::Memcached::PROGRAMS do
  include Support::StoreContract

  let!(:key) { "promise:#{SecureRandom.hex(8)}" }
  let!(:direct) { memcached(Support::Memcached.shared.address) }
  let(:line) { proxy(["127.0.0.1", Support::Memcached.shared.port]) }
  let(:store) { memcached("127.0.0.1:#{line.port}", attempt_timeout: 10) }

  def memcached(address, **options) = discard(described_class.new(address, **options), :close)

  it "no block begins with a lease that is over because the answer was late" do
    store.acquire(key) { nil }
    line.delay(:reply, 0.3)
    begun = []
    warnings do
      store.acquire(key, ttl: 0.2, wait: 0) { |lease| begun << (lease.valid? ? :valid : :over) }
    rescue Plock::Error
      nil # an error would also be correct
    end
    expect(begun).not_to include(:over)
    line.clear
    eventually(5.0, "the key was left behind") { direct.try_acquire(key) { true } }
  end

  it "interrupted callers leave no key behind though their own time is too short to release it" do
    store = direct
    store.define_singleton_method(:give_back) do |lease, keep, deadline = nil|
      if deadline && deadline - Plock::Clock.now <= Plock::Store::AcquireRequest::AT_ONCE_S
        raise Plock::UnavailableError.new("out of time", code: :timed_out)
      end

      super(lease, keep, deadline)
    end
    # The store must repeat a failed release at once. It also repeats the release a second later.
    # That later attempt is left out, because it would hide that the immediate one is missing.
    store.instance_variable_get(:@scheduler).define_singleton_method(:call_later) do
      |delay = 0.0, &work|
      super(delay, &work) if delay.zero?
    end
    keys = [key, "#{key}:2"]
    interrupted_everywhere(-> { store.acquire_all(keys, ttl: 30) { nil } }) do
      keys.each { |name| expect_nobody(name) }
    end
  end

  describe "an acquire that stands still between its two requests" do
    # Starts a caller that has the key. Its request for a fence does not reach the server until
    # line.clear.
    def pause_before_the_fence(ttl)
      store.acquire("#{key}:other") { nil }
      line.forget
      line.hold(:request, after: "ma ")
      first = background do
        store.try_acquire(key, ttl: ttl, wait: 0)
      rescue Plock::Error
        nil
      end
      line.await(:request, "ma ")
      first
    end

    def hold_again(wait) = kept(direct.acquire(key, ttl: 30, wait: wait))

    def expect_nothing_for(first, second)
      line.clear
      lease = first.value
      kept(lease) if lease
      expect([lease&.valid?, lease&.fence]).to eq([nil, nil]), <<~TEXT
        the first caller came back with #{lease.inspect}, the later holder has #{second.inspect}
      TEXT
      expect(second.release).to be(true)
    end

    it "comes back with no lease where another caller has the key after a break" do
      first = pause_before_the_fence(30)
      direct.break(key)
      expect_nothing_for(first, hold_again(0))
    end

    it "comes back with no lease where another caller has the key after its time is over" do
      first = pause_before_the_fence(0.1)
      expect_nothing_for(first, hold_again(10))
    end
  end

  it "a free key is free for a process with an interrupted waiter, at whatever step" do
    lease = direct.acquire(key, ttl: 1_000)
    mine = memcached(Support::Memcached.shared.address, attempt_timeout: 5)
    mine.try_acquire(key)
    last = (1..5_000).find do |step|
      interrupted = interrupted_at(step) { mine.try_acquire(key, wait: 0.001) }
      !interrupted || mine.status(key).waiters.any?
    end
    lease.release
    expect(direct.try_acquire(key) { :entered }).to be(:entered)
    expect(mine.try_acquire(key, wait: 1) { :entered }).to be(:entered),
      "never again after a waiter was interrupted at step #{last}"
  end

  describe "for fibers", :fibers do
    it "a server that stands still holds a fiber up for attempt_timeout and no longer", :timing do
      slow = memcached("127.0.0.1:#{line.port}", attempt_timeout: 0.2)
      slow.acquire(key) { nil }
      line.hold(:reply)
      background { sleep(3) && line.clear }
      took = elapsed do
        expect do
          Sync { slow.acquire(key, wait: 0) { nil } }
        end.to raise_error(Plock::UnavailableError)
      end
      expect(took).to be < 1.5
    end

    it "with_timeout ends a wait for a connection of the pool by its own error" do
      slow = memcached("127.0.0.1:#{line.port}", pool_size: 1, attempt_timeout: 5)
      slow.acquire(key) { nil }
      line.forget
      line.hold(:reply)
      background { sleep(5) && line.clear }
      background { slow.acquire("#{key}:other", wait: 0) { nil } }
      line.await(:request)
      expect do
        Sync { |task| task.with_timeout(0.1) { slow.acquire(key, wait: 5) { raise "entered" } } }
      end.to raise_error(Async::TimeoutError)
      line.clear
    end
  end

  describe "with a listener that raises a ScriptError" do
    [NotImplementedError, LoadError].each do |kind|
      it "still runs the block (#{kind})" do
        listener = Plock.subscribe(:acquire) { raise kind, "from a listener" }
        ran = nil
        warnings { direct.acquire(key) { ran = true } }
        expect(ran).to be(true)
      ensure
        Plock.unsubscribe(listener)
      end
    end
  end
end
