# frozen_string_literal: true

RSpec.shared_examples "a store whose leases can be lost" do
  long = Support::StoreContract::LONG
  news = Support::StoreContract::LATE_NEWS

  describe "#break" do
    it "frees the key, whose next fence is higher" do
      lease = hold(ttl: long)
      expect(store.break(key)).to be(true)
      expect(store.acquire(key, wait: 0, &:fence)).to be > lease.fence
    end

    it "says whether it was held" do
      expect(store.break(key)).to be(false)
    end

    it "takes what a status says, too" do
      hold(ttl: long)
      expect(store.break(store.status(key))).to be(true)
      expect_free
    end

    it "takes it only from the holder that a status has, and not from the next one" do
      first = hold(ttl: long)
      seen = store.status(key)
      first.release
      expect(store.break(seen)).to be(false)
      second = hold(ttl: long)
      expect(store.break(seen)).to be(false)
      expect([second.valid?, second.release]).to eq([true, true])
    end

    it "breaks one lease, and not the next one, if two callers have seen the same holder" do
      hold(ttl: long)
      seen = store.status(key)
      waiter = wait_in_line(1) { store.acquire(key, ttl: long, wait: long) }
      expect(store.break(seen)).to be(true)
      second = kept(waiter.value)
      expect(store.break(seen)).to be(false)
      expect(second.release).to be(true)
    end

    it "takes nothing if the status has no holder" do
      seen = store.status(key)
      lease = hold(ttl: long)
      expect(store.break(seen)).to be(false)
      expect(lease.release).to be(true)
    end

    it "finds the holder of a status again, however often it has extended its lease" do
      lease = hold(ttl: long)
      seen = store.status(key)
      lease.extend(ttl: long)
      expect(store.break(seen)).to be(true)
      expect_free
    end

    { "renew:" => { renew: true }, "on_lost:" => { on_lost: ->(_) {} } }.each do |name, options|
      it "is learnt by a lease with #{name} without a call", :timing do
        lease = hold(ttl: long, **options)
        store.break(key)
        eventually(Support::StoreContract::NEWS) { lease.lost? }
        expect(lease).not_to be_valid
      end
    end
  end

  describe "a lost lease" do
    it "is not released at the end of its block, and that is warned of" do
      other = nil
      heard = warnings do
        value = store.acquire(key) do
          store.break(key)
          # this fiber does not know yet that it has lost the key
          other = Thread.new { hold(ttl: long) }.value
          :value
        end
        expect(value).to be(:value)
      end
      expect(heard).to match([/"#{key}" .* is lost before its block ended/])
      expect(other.release).to be(true)
    end
  end

  describe "on_lost:" do
    let(:told) { Queue.new }

    it "is called with the lease when it is broken, once, on plock's own thread" do
      store.acquire(
        key, ttl: long, on_lost: ->(lease) { told << [lease, lease.lost?, Thread.current] }
      ) do |lease|
        store.break(key)
        expect(eventually(news) { !told.empty? && told.pop }).to match(
          [lease, true, satisfy { |thread| thread != Thread.current }]
        )
      end
      Plock::Dispatcher.flush
      expect(told).to be_empty
    end

    it "is called when its time is over" do
      lease = hold(ttl: short, on_lost: ->(lost) { told << lost })
      expect(eventually(short + news) { !told.empty? && told.pop }).to be(lease)
    end

    it "is called when max_hold: is over" do
      lease =
        hold(ttl: renewed, renew: true, max_hold: 2 * renewed, on_lost: ->(lost) { told << lost })
      expect(eventually(3 * renewed + news) { !told.empty? && told.pop }).to be(lease)
    end

    it "is called where a call learns of the loss first" do
      store.acquire(key, ttl: long, on_lost: ->(_) { told << true }) do |lease|
        store.break(key)
        expect(lease.release).to be(false)
      end
      Plock::Dispatcher.flush
      expect(told.size).to be(1)
    end

    it "is not called for a lease that was released, nor while it is renewed" do
      lease = hold(ttl: renewed, renew: true, on_lost: ->(_) { told << true })
      first = lease.valid_until
      eventually(8 * renewed) { lease.valid_until > first + (renewed / 2) }
      lease.release
      Plock::Dispatcher.flush
      expect(told).to be_empty
    end

    it "that raises is logged, and the next one is still called" do
      raised = Queue.new
      heard = warnings do
        hold(ttl: long, on_lost: ->(_) { (raised << true) && raise(IOError, "the callback's own") })
        store.break(key)
        lease = hold(ttl: long, on_lost: ->(_) { told << true })
        store.break(key)
        # the store may report the second loss first
        eventually(news) { !told.empty? && !raised.empty? }
        lease.release
        Plock::Dispatcher.flush
      end
      expect(heard).to match([/on_lost: for "#{key}" raised IOError: the callback's own/])
    end

    it "can use the store" do
      hold(ttl: long, on_lost: ->(lost) { told << store.acquire(lost.key, wait: long, &:fence) })
      store.break(key)
      expect(eventually { !told.empty? && told.pop }).to be_an(Integer)
    end

    it "finds its lease after the heap was compacted" do
      skip "this Ruby does not compact" unless GC.respond_to?(:compact)
      leases =
        Array.new(50) do |number|
          hold("#{key}:#{number}", ttl: long, on_lost: ->(lease) { told << lease })
        end
      2.times { GC.compact }
      leases.each { |lease| store.break(lease.key) }
      eventually { told.size == 50 }
      expect(Array.new(50) { told.pop }).to match_array(leases)
    end

    it "does not keep a lease from being collected" do
      heard = warnings do
        Thread.new { store.acquire(key, ttl: long, on_lost: ->(_) { told << true }) && nil }.join
        eventually(10) { GC.start || free? }
        Plock::Dispatcher.flush
      end
      expect(heard).to match([/collected/])
      expect(told).to be_empty
    end

    it "is the parent's: nothing is called in a forked child" do
      hold(ttl: short, on_lost: ->(_) { told << Process.pid })
      child = in_child do
        eventually(5) { free? }
        Plock::Dispatcher.flush
        told.size
      end
      expect(child).to be_zero
      eventually { !told.empty? }
    end

    it "works in a forked child for the child's own leases" do
      expect(in_child do
        lease = hold(ttl: long, on_lost: ->(_) { told << true })
        store.break(key)
        eventually { told.size == 1 }
        lease.lost?
      end).to be(true)
    end
  end
end
