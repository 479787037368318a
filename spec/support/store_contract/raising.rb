# frozen_string_literal: true

RSpec.shared_examples "a store that raises in the block" do
  long = Support::StoreContract::LONG

  describe "on_lost: :raise" do
    it "raises LeaseLost in the block, even while it sleeps" do
      lease = nil
      expect do
        store.acquire(key, ttl: long, on_lost: :raise) do |given|
          lease = given
          store.break(key)
          sleep long
        end
      end.to raise_error(Plock::LeaseLost) { |error| expect(error.lease).to be(lease) }
      expect_free
    end

    it "raises in a block that only computes" do
      expect { store.acquire(key, ttl: 0.5, on_lost: :raise) { loop { nil } } }.to raise_error(
        Plock::LeaseLost
      )
    end

    it "raises in the thread that holds it" do
      inside = Queue.new
      thread = background do
        store.acquire(key, ttl: long, on_lost: :raise) do
          inside << true
          sleep
        end
      end
      inside.pop
      store.break(key)
      expect { thread.join(5) }.to raise_error(Plock::LeaseLost)
    end

    it "returns the block's value where nothing is lost" do
      expect(store.acquire(key, on_lost: :raise) { :value }).to be(:value)
      expect_free
    end

    it "can be rescued in the block, and comes once" do
      value = store.acquire(key, ttl: long, on_lost: :raise) do
        store.break(key)
        sleep long
      rescue Plock::LeaseLost
        Plock::Dispatcher.flush
        :rescued
      end
      expect(value).to be(:rescued)
    end

    it "raises inside a block that an Enumerator runs, and one that has resumed another fiber" do
      lose = -> do
        background { store.break(key) }
        sleep long
      end
      ways = [lose, -> { Enumerator.new { lose.call }.next }, -> { Fiber.new(&lose).resume }]
      ways.each do |work|
        inside = []
        elements = Enumerator.new do |found|
          store.acquire(key, ttl: long, on_lost: :raise) { found << work.call }
        rescue Plock::LeaseLost
          inside << true
          raise
        end
        expect { elements.next }.to raise_error(Plock::LeaseLost)
        expect { elements.each { nil } }.to raise_error(Plock::LeaseLost)
        expect(inside.size).to be(2)
      end
      expect_free
    end

    it "raises nothing while an Enumerator is suspended in the block, and warns" do
      lost = Queue.new
      subscription = Plock.subscribe(:lost) { lost << true }
      elements = Enumerator.new do |found|
        store.acquire(key, ttl: long, on_lost: :raise) { |lease| 2.times { found << lease } }
      end
      expect(elements.next).to be_valid
      heard = warnings do
        store.break(key)
        lost.pop
        Plock::Dispatcher.flush
      end
      expect(heard).to match([/lost before its block ended/])
      expect(elements.next).to be_lost
      expect { elements.next }.to raise_error(StopIteration)
    ensure
      Plock.unsubscribe(subscription)
    end

    it "never raises after the block has ended, and warns of a loss that it did not raise" do
      random = Random.new(RSpec.configuration.seed)
      outcomes = Array.new(100) do |round|
        name = "#{key}:#{round}"
        breaker = raised = nil
        heard = warnings do
          store.acquire(name, ttl: long, on_lost: :raise) do
            started = Queue.new
            Thread.handle_interrupt(Plock::LeaseLost => :never) do
              breaker = background { (started << true) && store.break(name) }
            end
            started.pop
            # so that the loss comes before, at or after the block's end
            round.odd? ? sleep(random.rand(0.0004)) : random.rand(5_000).times { nil }
          end
        rescue Plock::LeaseLost
          raised = true
        ensure
          breaker.join
          Plock::Dispatcher.flush
        end
        expect(Thread.pending_interrupt?).to be(false)
        [breaker.value, !!raised, heard.size]
      end
      # Three outcomes are possible. The lease was broken and the loss was raised in the block. Or
      # it was broken and a warning was logged. Or it was released before the break.
      expect(outcomes - [[true, true, 0], [true, false, 1], [false, false, 0]]).to be_empty
    end

    it "raises, and runs no block, if it was lost while subscribers heard of the acquire" do
      lost, ran = Queue.new, false
      subscriptions = [
        Plock.subscribe(:lost) { lost << true },
        Plock.subscribe(:acquire) do
          store.break(key)
          eventually(Support::StoreContract::LATE_NEWS) { lost.size == 1 }
          Plock::Dispatcher.flush
        end
      ]
      heard = warnings do
        expect { store.acquire(key, ttl: long, on_lost: :raise) { ran = true } }.to raise_error(
          Plock::LeaseLost
        )
      end
      expect([heard, ran]).to eq([[], false])
      expect_free
    ensure
      subscriptions.each { |subscription| Plock.unsubscribe(subscription) }
    end

    it "raises for several keys, one of which was lost and acquired again before the block" do
      first, last = ["#{key}:1", "#{key}:2"].sort_by { |name| store.config.store_key(name) }
      holder = store.acquire(last, ttl: long)
      told, ran = [], false
      ttl = [0.5, renewed].max
      subscription = Plock.subscribe(:lost) { |event| told << event.key }
      thread = background do
        store.acquire_all([first, last], ttl: ttl, wait: long, on_lost: :raise) do |leases|
          ran = leases.each { |lease| lease.extend(ttl: long) } && told.empty?
          store.break(first)
          sleep long
        end
      end
      eventually(10) { store.status(last).waiters.any? && !store.status(first).held? }
      Plock::Dispatcher.flush
      holder.release
      expect { thread.value }.to raise_error(Plock::LeaseLost)
      expect([ran, told]).to eq([true, [first]])
    ensure
      Plock.unsubscribe(subscription)
    end

    it "never raises while the block's lease is acquired or released" do
      store.acquire("#{key}:outer", ttl: long, on_lost: :raise) do
        acquiring = Thread.current
        holder = hold(ttl: long)
        breaker = background do
          await_waiters(1)
          store.break("#{key}:outer")
          eventually(Support::StoreContract::LATE_NEWS) { acquiring.pending_interrupt? }
          holder.release
        end
        reached = store.acquire(key, wait: long, on_lost: :raise) { :inner }
        raise "the loss was not heard in the block around (#{reached}, #{breaker})"
      end
    rescue Plock::LeaseLost => e
      expect(e.lease.key).to eq("#{key}:outer")
      expect_free
    end

    it "tells inner and outer blocks apart" do
      heard = []
      store.acquire("#{key}:outer", ttl: long, on_lost: :raise) do
        begin
          store.acquire(key, ttl: long, on_lost: :raise) do
            store.break(key)
            sleep long
          end
        rescue Plock::LeaseLost => e
          heard << e.lease.key
        end
        store.break("#{key}:outer")
        sleep long
      rescue Plock::LeaseLost => e
        heard << e.lease.key
      end
      expect(heard).to eq([key, "#{key}:outer"])
    end

    it "raises in a fiber of a thread without a Fiber scheduler" do
      fiber = Fiber.new do
        store.acquire(key, ttl: long, on_lost: :raise) do
          background { store.break(key) }
          sleep long
        end
      end
      expect { fiber.resume }.to raise_error(Plock::LeaseLost)
      expect_free
    end

    it "is refused under a Fiber scheduler", :fibers do
      refused = Sync do
        store.acquire(key, on_lost: :raise) { :entered }
      rescue Plock::UnsupportedError => e
        e.message
      end
      expect(refused).to match(/fiber/)
      expect_free
    end
  end
end
