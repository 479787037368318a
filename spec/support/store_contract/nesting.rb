# frozen_string_literal: true

# If a fiber asks for a lock that it holds itself, the call fails at once, instead of waiting until
# `wait:` is over.
RSpec.shared_examples "a store that is asked again from within" do |unable = []|
  long = Support::StoreContract::LONG

  let(:itself) do
    raise_error(
      Plock::UnsupportedError, /\Athis fiber holds .*"#{key}".* would wait for itself: .*/
    )
  end

  describe "asking again from within" do
    def again(**options, &block) =
      store.acquire(key, wait: Support::StoreContract::LONG, **options, &block)

    it "raises at once, names Monitor, and leaves the outer lease alone" do
      store.acquire(key) do |lease|
        expect { again { raise "entered" } }.to raise_error(
          Plock::UnsupportedError, /"#{key}" already.*Plock::Monitor/
        )
        expect { again }.to itself
        expect(store.status(key)).to have_attributes(held?: true, waiters: [])
        expect(lease).to be_valid
      end
      expect_free
    end

    it "raises however deep" do
      store.acquire(key) { store.acquire("#{key}:2") { expect { again }.to itself } }
      store.try_acquire(key) { expect { again }.to itself }
      again.release
    end

    it "is answered as ever where nothing would be waited for" do
      store.acquire(key) do
        expect(store.try_acquire(key)).to be_nil
        expect { store.acquire(key, wait: 0) }.to raise_error(Plock::TimeoutError)
      end
    end

    it "raises for several keys where one of them is held" do
      other = "#{key}:2"
      store.acquire(key) do
        expect { store.acquire_all([other, key], wait: long) { raise "entered" } }.to itself
        expect(free?(other)).to be(true)
        expect(store.try_acquire_all([other, key])).to be_nil
      end
      store.acquire_all([other, key]) { expect { again }.to itself }
      again.release
    end

    it "waits as ever for a lease that was returned: another thread may release it" do
      lease = hold(ttl: long)
      helper = background { await_waiters(1) && lease.release }
      expect(again(&:fence)).to be > lease.fence
      helper.join
    end

    it "waits as ever in another thread" do
      thread = nil
      store.acquire(key) { |_| thread = wait_in_line(1) { again { :other } } }
      expect(thread.value).to be(:other)
    end

    it "waits as ever in another fiber", :fibers do
      fiber = Fiber.new { store.acquire(key, wait: 0.01) }
      store.acquire(key) { expect { fiber.resume }.to raise_error(Plock::TimeoutError) }
    end

    it "is let in where the outer lease was released, or is over" do
      store.acquire(key) do |lease|
        lease.release
        expect(again { :entered }).to be(:entered)
      end
      warnings do
        store.acquire(key, ttl: short) do |lease|
          eventually { lease.lost? } && expect(again { :late }).to(be(:late))
        end
      end
      expect_free
    end

    it "forgets what was held when the block is left, however that is" do
      catch(:out) { store.acquire(key) { throw :out } }
      expect { store.acquire(key) { raise IOError } }.to raise_error(IOError)
      expect(again { :entered }).to be(:entered)
    end

    it "is not refused in a forked child, which waits for its parent" do
      result = store.acquire(key, ttl: long) do
        in_child do
          store.acquire(key, wait: 0.05) { :entered }
        rescue Plock::Error => e
          e.class
        end
      end
      expect(result).to be(Plock::TimeoutError)
    end

    it "raises where a monitor of the key is entered within, or the other way round" do
      monitor = Plock::Monitor.new(key, store: store, wait: long)
      store.acquire(key) { expect { monitor.synchronize { raise "entered" } }.to itself }
      monitor.synchronize { expect { again }.to itself }
      monitor.enter
      expect { again }.to itself
      expect { Plock::Monitor.new(key, store: store, wait: long).enter }.to itself
      monitor.exit
      expect(monitor.synchronize { monitor.synchronize { :twice } }).to be(:twice)
      expect(again { :entered }).to be(:entered)
    end

    unless unable.include?(:semaphores)
      it "raises where this fiber has all permits of a semaphore" do
        semaphore = store.semaphore(key, permits: 2)
        semaphore.acquire do
          semaphore.acquire do
            expect { semaphore.acquire(wait: long) }.to raise_error(
              Plock::UnsupportedError, /all 2 permits of "#{key}".*release one/
            )
            expect(semaphore.try_acquire).to be_nil
          end
          expect(semaphore.acquire(wait: long) { :second }).to be(:second)
        end
        expect_free(semaphore)
      end
    end
  end
end
