# frozen_string_literal: true

RSpec.shared_examples "a store for fibers" do
  long = Support::StoreContract::LONG

  describe "under a Fiber scheduler", :fibers do
    it "a fiber waits for another one of its thread, in order" do
      order = Sync do |task|
        order = []
        lease = hold(ttl: long)
        fibers = Array.new(5) do |number|
          task
            .async { store.acquire(key, ttl: long, wait: long) { order << number } }
            .tap { await_waiters(number + 1) }
        end
        task.async { lease.release }.wait
        fibers.each(&:wait)
        order
      end
      expect(order).to eq([*0...5])
      expect_free
    end

    it "a fiber waits for a thread, and others run meanwhile" do
      thread, _lease, leave = holder
      ticks = Sync do |task|
        ticks = 0
        waiter = task.async { store.acquire(key, wait: long) { :entered } }
        ticker = task.async { loop { sleep(0.001) && (ticks += 1) >= 5 && leave << true } }
        waiter.wait
        ticker.stop
        ticks
      end
      thread.join
      expect(ticks).to be >= 5
    end

    it "patience ends by its budget", :timing do
      lease = hold(ttl: long)
      for_as_long_as(0.05) { Sync { store.try_acquire(key, wait: 0.05) } }
      lease.release
    end

    it "a fiber that is stopped while it waits leaves the line, and one in its block releases" do
      entered = Queue.new
      Sync do |task|
        inside = task.async { store.acquire(key, ttl: long) { (entered << true) && sleep } }
        entered.pop
        waiter = task.async { store.acquire(key, ttl: long, wait: long) { raise "entered" } }
        waiter.stop
        inside.stop
        [inside, waiter].each(&:wait)
      end
      expect_nobody
    end

    it "a fiber that times out leaves none of several keys behind, at any step" do
      keys = Array.new(4) { |number| "#{key}:#{number}" }
      store.acquire_all(keys) { nil }
      Sync do |task|
        (1..40).each do |step|
          task.with_timeout(step * 0.000_25) { store.acquire_all(keys, ttl: long) { sleep 0 } }
        rescue Async::TimeoutError
          nil
        end
      end
      keys.each { |name| expect_nobody(name) }
    end

    it "on_lost: is called" do
      told = Queue.new
      Sync do
        store.acquire(key, ttl: long, on_lost: ->(_) { told << true }) do
          store.break(key)
          told.pop
        end
      end
      expect_free
    end
  end
end
