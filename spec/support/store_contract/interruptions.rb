# frozen_string_literal: true

RSpec.shared_examples "a store whose callers are interrupted" do
  long = Support::StoreContract::LONG

  describe "an interrupt" do
    it "ends a wait at once, and takes the waiter out of the line" do
      lease = hold(ttl: long)
      waiter = line_up(1) { raise "entered" }.first
      waiter.raise(IOError, "out")
      expect { waiter.join(5) }.to raise_error(IOError)
      await_waiters(0)
      lease.release
      expect_free
    end

    it "by Timeout ends a wait" do
      lease = hold(ttl: long)
      expect {
        Timeout.timeout(0.05) { store.acquire(key, wait: long) { raise "entered" } }
      }.to raise_error(Timeout::Error)
      await_waiters(0)
      lease.release
    end

    it "in the block releases" do
      thread, = holder
      thread.kill.join
      expect_nobody
    end

    it "leaves nothing behind, at whatever step it comes" do
      block = -> { store.acquire(key, ttl: long, wait: long, label: "why") { nil } }
      interrupted_everywhere(block) { expect_nobody }
    end

    it "leaves nothing behind at the few steps that a call has without options" do
      interrupted_everywhere(-> { store.acquire(key, wait: long) { nil } }, least: 2) do
        expect_nobody
      end
    end

    it "leaves nothing behind though the block releases by itself, at whatever step it comes" do
      interrupted_everywhere(-> { store.acquire(key, ttl: long, &:release) }) { expect_nobody }
    end

    it "leaves nothing behind at any step, even if the block releases each of several" do
      keys = [key, "#{key}:2"]
      interrupted_everywhere(
        -> { store.acquire_all(keys, ttl: long) { |leases| leases.each(&:release) } }
      ) { keys.each { |name| expect_nobody(name) } }
    end

    it "leaves nothing behind if a signal handler raises, at whatever step that comes" do
      block = -> { store.acquire(key, ttl: long, wait: long, label: "why") { nil } }
      interrupted_everywhere(block, by_signal: true) { expect_nobody }
    end

    it "leaves none of several keys behind if a signal handler raises, at whatever step" do
      keys = [key, "#{key}:2"]
      interrupted_everywhere(
        -> { store.acquire_all(keys, ttl: long, label: "why") { nil } }, by_signal: true
      ) { keys.each { |name| expect_nobody(name) } }
    end

    it "leaves nothing behind with on_lost: :raise, at whatever step it comes" do
      interrupted_everywhere(-> { store.acquire(key, ttl: long, on_lost: :raise) { nil } }) do
        expect_nobody
      end
    end

    it "that comes before the block does not let at_least: count" do
      ran = nil
      block = -> do
        ran = false
        store.acquire(key, at_least: long) { ran = true }
      end
      interrupted_everywhere(block) do
        ran || expect_nobody
        store.break(key)
      end
    end
  end
end
