# frozen_string_literal: true

RSpec.shared_examples "a store of which several keys are acquired" do |unable = []|
  long = Support::StoreContract::LONG

  describe "#acquire_all" do
    # The keys, in the order in which the store takes them.
    let(:keys) do
      Array.new(4) { |number| "#{key}:#{number}" }.sort_by { |key| store.status(key).store_key }
    end

    def expect_all_free = expect(keys.select { |key| store.status(key).held? }).to be_empty

    def expect_none = keys.each { |key| expect_nobody(key) }

    it "holds them all while the block runs, and returns its value" do
      expect(store.acquire_all(keys) { keys.map { |key| store.try_acquire(key) } }).to eq([nil] * 4)
      expect_all_free
    end

    it "gives one lease for each, in the order in which they were named" do
      named = keys.rotate(2).reverse
      store.acquire_all(named, ttl: 60, label: "why") do |leases|
        expect(leases.map(&:key)).to eq(named)
        expect(leases).to all(
          have_attributes(
            valid?: true, ttl: 60.0, remaining: be_between(50, 60), label: "why", mode: nil
          )
        )
        expect(leases.map(&:token).uniq.size).to be(4)
        expect(named.map { |key| store.status(key).fence }).to eq(leases.map(&:fence))
      end
    end

    it "takes each key once, however often it is named" do
      leases =
        store
          .acquire_all([keys[0], keys[1], keys[0].to_sym, keys[1].dup], wait: 0)
          .map { |lease| kept(lease) }
      expect(leases.map(&:key)).to eq(keys.first(2))
    end

    it "is the plain lock of each key: it has a greater fence than the one before" do
      before = keys.map { |key| store.acquire(key, &:fence) }
      store.acquire_all(keys) do |leases|
        expect(leases.map(&:fence).zip(before)).to all(satisfy { |later, earlier| later > earlier })
        unless unable.include?(:list)
          expect(store.each_lock.map(&:store_key)).to include(*leases.map(&:store_key))
        end
      end
    end

    it "releases them all whichever way the block is left" do
      expect { store.acquire_all(keys) { raise IOError, "the block's own" } }.to raise_error(
        IOError
      )
      catch(:out) { store.acquire_all(keys) { throw :out } }
      store.acquire_all(keys) { break }
      expect_all_free
    end

    it "returns the leases without a block, each to be released" do
      leases = store.acquire_all(keys)
      expect(leases.map(&:release)).to eq([true] * 4)
      expect(leases.map(&:release)).to eq([false] * 4)
      expect_all_free
    end

    it "lets single ones be released and extended in the block" do
      store.acquire_all(keys, ttl: long) do |leases|
        leases[0].release
        leases[1].extend(ttl: 2 * long)
        expect([store.status(keys[0]).held?, store.status(keys[1]).remaining > long]).to eq(
          [false, true]
        )
      end
      expect_all_free
    end

    unless unable.include?(:hand_over)
      it "lets single ones be handed over in the block" do
        dump = store.acquire_all(keys, ttl: long) { |leases| leases[2].dump }
        expect(keys.map { |key| store.status(key).held? }).to eq([false, false, true, false])
        store.adopt(dump).release
      end
    end

    it "takes none if another caller holds one of them" do
      lease = hold(keys[2], ttl: long)
      expect(store.try_acquire_all(keys)).to be_nil
      expect(store.try_acquire_all(keys) { raise "entered" }).to be_nil
      expect(store.try_acquire_all(keys, wait: 0.02)).to be_nil
      expect { store.acquire_all(keys, wait: 0) { raise "entered" } }.to raise_error(
        Plock::TimeoutError
      )
      await_waiters(0, keys[2])
      lease.release
      expect_none
      expect(store.try_acquire_all(keys) { :entered }).to be(:entered)
    end

    it "takes none past one who waits" do
      lease = hold(keys[1], ttl: long)
      refused = nil
      waiter =
        wait_in_line(1, keys[1]) do
          store.acquire(keys[1], wait: long) { refused = store.try_acquire_all(keys).nil? }
        end
      lease.release
      waiter.join
      expect(refused).to be(true)
    end

    it "names in a TimeoutError the key, its holder, and the number of keys" do
      hold(keys[1], ttl: long, label: "the nightly run")
      expect { store.acquire_all(keys.rotate, wait: 0.05) { raise "entered" } }.to raise_error(
        Plock::TimeoutError
      ) { |error|
        holder = /held since .*, label "the nig/
        expect(error.message).to match(
          /\Acould not acquire "#{keys[1]}", one of 4 keys, within 0.05 s: #{holder}/
        )
        expect(error.status).to have_attributes(key: keys[1], held?: true, label: "the nightly run")
      }
      (keys - [keys[1]]).each { |key| expect_nobody(key) }
    end

    it "waits for one key at a time, and holds those before it only" do
      leases = [1, 3].map { |number| hold(keys[number], ttl: long) }
      waiter =
        background do
          store.acquire_all(keys, ttl: long, wait: long) do
            keys.map { |key| store.status(key).held? }
          end
        end
      lines = -> do
        keys.map { |key| store.status(key).then { |status| [status.held?, status.waiters.size] } }
      end
      await_waiters(1, keys[1])
      expect(lines.call).to eq([[true, 0], [true, 1], [false, 0], [true, 0]])
      leases[0].release
      await_waiters(1, keys[3])
      expect(lines.call).to eq([[true, 0], [true, 0], [true, 0], [true, 1]])
      leases[1].release
      expect(waiter.value).to eq([true] * 4)
      expect_none
    end

    it "gives up when patience for all of them together ends", :timing do
      hold(keys[0], ttl: 0.1) unless unable.include?(:prompt_expiry)
      hold(keys[3], ttl: long)
      for_as_long_as(0.2) { expect(store.try_acquire_all(keys, ttl: long, wait: 0.2)).to be_nil }
      expect(keys.first(3).map { |key| free?(key) }).to all(be(true))
    end

    it "is not held up by callers who name the keys in another order" do
      threads = Array.new(4) do |number|
        named = number.odd? ? keys.rotate(number).reverse : keys.rotate(number)
        background { 10.times { store.acquire_all(named, ttl: long, wait: long) { Thread.pass } } }
      end
      threads << background do
        10.times { |number| store.acquire(keys[number % 4], ttl: long, wait: long) { Thread.pass } }
      end
      expect(threads.map { |thread| thread.join(30) }).to eq(threads)
      expect_none
    end

    it "has the full time of each lease before it, however long it waited" do
      lease = hold(keys[3], ttl: long)
      waiter = background do
        store.acquire_all(keys, ttl: 4 * short, wait: long) do |leases|
          leases.map { |one| one.check!.remaining }
        end
      end
      await_waiters(1, keys[3])
      started = Plock::Clock.now
      eventually { Plock::Clock.now - started > 3 * short }
      lease.release
      expect(waiter.value).to all(be > 2.5 * short)
    end

    it "takes again what it lost while it waited" do
      lease = hold(keys[3], ttl: long)
      waiter =
        background do
          store.acquire_all(keys, ttl: long, wait: long) { |leases| leases.map(&:valid?) }
        end
      await_waiters(1, keys[3])
      expect([store.break(keys[0]), store.break(keys[1])]).to eq([true, true])
      lease.release
      expect(waiter.value).to eq([true] * 4)
      expect_none
    end

    it "gives all back and begins again, if another caller holds a key lost while waiting" do
      lease = hold(keys[3], ttl: long)
      waiter =
        background do
          store.acquire_all(keys, ttl: long, wait: long) { |leases| leases.map(&:valid?) }
        end
      await_waiters(1, keys[3])
      store.break(keys[1])
      other = hold(keys[1], ttl: long)
      lease.release
      await_waiters(1, keys[1])
      # a slow release continues in the background
      eventually { keys.map { |key| free?(key) } == [false, false, true, true] }
      other.release
      expect(waiter.value).to eq([true] * 4)
      expect_none
    end

    it "takes up to 64 different keys" do
      many = Array.new(64) { |number| "#{key}:many:#{number}" }
      store.acquire_all(many + many) do |leases|
        expect(leases.map { |lease| store.status(lease.key).fence }).to eq(leases.map(&:fence))
      end
      expect(many.select { |key| store.status(key).held? }).to be_empty
      expect { store.acquire_all([*many, "#{key}:more"]) { raise "entered" } }.to raise_error(
        ArgumentError, /64/
      )
      expect(many.select { |key| store.status(key).held? }).to be_empty
    end

    it "raises an ArgumentError for what cannot be right" do
      [[], nil, "k", :k, [nil], ["k", ""], ["k", 7], { "k" => 1 }].each do |wrong|
        expect { store.acquire_all(wrong) { raise "entered" } }.to raise_error(ArgumentError, /key/)
      end
      [
        { ttl: 0 }, { wait: -1 }, { renew: 1 }, { on_lost: 5 }, { patience: 5 },
        { release: :wait }, { release: :background }
      ].each do |options|
        %i[acquire_all try_acquire_all].each do |method|
          expect { store.public_send(method, keys, **options) { raise "entered" } }.to raise_error(
            ArgumentError, /#{options.keys.first}/
          )
        end
      end
      expect { store.acquire_all(keys, on_lost: :raise) }.to raise_error(ArgumentError, /block/)
      expect_all_free
    end

    it "takes any list of keys" do
      require "set"
      expect(store.acquire_all(keys.to_set) { |leases| leases.map(&:key) }).to eq(keys)
      expect(store.acquire_all(keys.each) { |leases| leases.map(&:key) }).to eq(keys)
    end

    describe "with options" do
      it "keeps them all taken by at_least:" do
        store.acquire_all(keys, at_least: 20) { nil }
        expect(keys.map { |key| store.status(key).remaining }).to all(be_between(15, 20.1))
        keys.each { |key| store.break(key) }
      end

      it "does not let at_least: count where it did not get them all" do
        hold(keys[3], ttl: long)
        expect(store.try_acquire_all(keys, wait: 0.02, at_least: 20)).to be_nil
        keys.first(3).each { |key| expect_nobody(key) }
      end

      it "renews them all" do
        store.acquire_all(keys, ttl: renewed, renew: true) do |leases|
          outlive(leases.map(&:valid_until).max)
          expect(leases).to all(be_valid)
        end
        expect_all_free
      end

      it "calls on_lost: for each that is lost" do
        told = Queue.new
        store.acquire_all(keys, ttl: long, on_lost: ->(lease) { told << lease.key }) do
          [0, 2].each { |number| store.break(keys[number]) }
          eventually { told.size == 2 }
        end
        expect([told.pop, told.pop]).to match_array([keys[0], keys[2]])
        expect_all_free
      end

      it "raises the first that is lost with on_lost: :raise" do
        heard = warnings do
          expect do
            store.acquire_all(keys, ttl: long, on_lost: :raise) do
              store.break(keys[2]) && sleep(long)
            end
          end.to raise_error(Plock::LeaseLost) { |error| expect(error.lease.key).to eq(keys[2]) }
        end
        expect(heard).to be_empty
        expect_all_free
      end

      it "warns of each that was lost before the block ended, without on_lost:" do
        heard =
          warnings do
            expect(
              store.acquire_all(keys) { [1, 2].each { |number| store.break(keys[number]) } }
            ).to eq([1, 2])
          end
        expect(heard).to match([/"#{keys[1]}" .* is lost before/, /"#{keys[2]}" .* is lost before/])
      end
    end

    it "tells of events of each key" do
      heard = Queue.new
      subscription =
        Plock.subscribe { |event| heard << [event.name, event.key_digest, event.label] }
      store.acquire_all(keys, label: "why") { nil }
      digests = keys.map { |key| store.status(key).store_key.delete("{}")[-64..] }
      events = Array.new(heard.size) { heard.pop }.select { |_, digest| digests.include?(digest) }
      expect(events).to match_array(
        %i[acquire release].product(digests).map { |name, digest| [name, digest, "why"] }
      )
    ensure
      Plock.unsubscribe(subscription)
    end

    it "tells of the key that it could not have, and of no others" do
      hold(keys[2], ttl: long)
      events = Queue.new
      subscription = Plock.subscribe { |event| events << [event.name, event.key_digest] }
      store.try_acquire_all(keys, wait: 0.02)
      digests = keys.map { |key| store.status(key).store_key.delete("{}")[-64..] }
      heard = Array.new(events.size) { events.pop }.select { |_, digest| digests.include?(digest) }
      expect(heard).to eq([[:contended, digests[2]], [:timeout, digests[2]]])
    ensure
      Plock.unsubscribe(subscription)
    end

    describe "interrupted" do
      it "leaves none, at whatever step" do
        interrupted_everywhere(
          -> { store.acquire_all(keys.first(3), ttl: long, wait: long) { nil } }, least: 3
        ) { expect_none }
      end

      it "leaves none with on_lost: :raise, at whatever step" do
        interrupted_everywhere(
          -> { store.acquire_all(keys.first(3), ttl: long, on_lost: :raise) { nil } }
        ) { expect_none }
      end

      it "leaves none where it is refused, at whatever step" do
        lease = hold(keys[2], ttl: 1_000) # longer than all steps take
        interrupted_everywhere(-> { store.try_acquire_all(keys, ttl: long, wait: 0.001) }) do
          [0, 1, 3].each { |number| expect_nobody(keys[number]) }
        end
        lease.release
      end

      it "while it waits, leaves none and no place in line" do
        lease = hold(keys[2], ttl: long)
        waiter =
          wait_in_line(1, keys[2]) do
            store.acquire_all(keys, ttl: long, wait: long) { raise "entered" }
          end
        expect([store.status(keys[0]).held?, store.status(keys[1]).held?]).to eq([true, true])
        waiter.raise(IOError, "out")
        expect { waiter.join(5) }.to raise_error(IOError)
        await_waiters(0, keys[2])
        lease.release
        expect_none
      end

      it "in the block releases them all" do
        entered = Queue.new
        thread = background { store.acquire_all(keys, ttl: long) { (entered << true) && sleep } }
        entered.pop
        thread.kill.join
        expect_none
      end
    end

    it "is not a forked child's" do
      store.acquire_all(keys, ttl: long) do |leases|
        expect(in_child { [leases.map(&:valid?), leases.map(&:release)].flatten.uniq }).to eq(
          [false]
        )
        expect(leases).to all(be_valid)
      end
      expect_all_free
    end

    it "works for fibers", :fibers do
      said = Sync do |task|
        fibers = Array.new(3) do |number|
          task.async do
            store.acquire_all(keys.rotate(number), ttl: long, wait: long) { sleep(0.002) && number }
          end
        end
        fibers.map(&:wait)
      end
      expect(said).to eq([0, 1, 2])
      expect_none
    end
  end
end
