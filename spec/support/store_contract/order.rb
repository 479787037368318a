# frozen_string_literal: true

RSpec.shared_examples "a store that serves in order" do
  describe "12 waiters are served in the order of their arrival" do
    let(:served) { Queue.new }
    let(:in_order) { Array.new(served.size) { served.pop } }

    # On a busy machine, a process may be unable to refresh its waiters' places for a second. So the
    # places last longer here.
    before do
      replace(store, :place_span) { 4.0 } if store.respond_to?(:place_span, true)
    end

    def all_of(threads) =
      threads.each { |thread| thread.join(10) || raise("a waiter was not served") }

    it "when the holder releases" do
      lease = hold(ttl: Support::StoreContract::LONG)
      waiters = line_up(12) { |number| served << number }
      lease.release
      all_of(waiters)
      expect(in_order).to eq([*0...12])
    end

    it "when the holder's lease is renewed and extended before" do
      lease = hold(ttl: renewed, renew: true)
      waiters = line_up(12) { |number| served << number }
      3.times do
        reached = lease.valid_until
        eventually(2 * renewed + 5) { lease.valid_until > reached }
        lease.extend
      end
      expect(served).to be_empty
      lease.release
      all_of(waiters)
      expect(in_order).to eq([*0...12])
    end

    it "when the holder's time runs out" do
      lease = hold(ttl: Support::StoreContract::LONG)
      waiters = line_up(12) { |number| served << number }
      lease.extend(ttl: renewed) # long enough that the lease outlasts this call
      all_of(waiters)
      expect(lease).to be_lost
      expect(in_order).to eq([*0...12])
    end

    it "when the holder's lease is broken" do
      hold(ttl: Support::StoreContract::LONG)
      waiters = line_up(12) { |number| served << number }
      store.break(key)
      all_of(waiters)
      expect(in_order).to eq([*0...12])
    end

    it "when some of them are killed, and some give up" do
      lease = hold(ttl: Support::StoreContract::LONG)
      waiters = line_up(12) { |number| served << number }
      gone = [0, 3, 4, 11]
      gone.each { |number| waiters[number].kill.join }
      await_waiters(8)
      expect(store.try_acquire(key, wait: 0.01)).to be_nil
      lease.release
      all_of(waiters)
      expect(in_order).to eq([*0...12] - gone)
      expect_nobody
    end

    it "with fences that grow" do
      lease = hold(ttl: Support::StoreContract::LONG)
      waiters = line_up(12) { |_number, given| served << given.fence }
      lease.release
      all_of(waiters)
      expect([lease.fence, *in_order].each_cons(2)).to all(
        satisfy { |earlier, later| earlier < later }
      )
    end
  end

  it "does not let an attempt without patience past those who wait" do
    lease = hold(ttl: Support::StoreContract::LONG)
    overtaken = Queue.new
    first, = line_up(1) { overtaken << store.try_acquire(key) }
    second = background { store.acquire(key, wait: Support::StoreContract::LONG) { nil } }
    await_waiters(2)
    lease.release
    [first, second].each(&:join)
    expect(overtaken.pop).to be_nil
  end
end
