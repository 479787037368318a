# frozen_string_literal: true

require "support/wall_clock"

RSpec.shared_examples "a store that hands leases over" do
  long = Support::StoreContract::LONG

  # Does a forked child get a copy of the store, with its locks?
  def copied_by_fork? = store.url.start_with?("memory:", "mongo:")

  describe "Lease#dump and #adopt" do
    it "carry a lease on: the same end, another token and a greater fence" do
      lease = hold(ttl: long)
      latest = Plock::Clock.now + long + 0.01 # the acquire is over, so the ttl has begun before now
      token, fence, ends = lease.token, lease.fence, lease.valid_until
      adopted = store.adopt(lease.dump)
      expect(adopted).to have_attributes(key: lease.key, valid?: true, fence: be > fence,
                                         valid_until: be_between(ends - 10, latest))
      expect(adopted.token).not_to eq(token)
      expect(store.status(key).fence).to eq(adopted.fence)
      expect(adopted.release).to be(true)
      expect_free
    end

    it "carry it to another process" do
      lease = hold(ttl: long)
      dump = lease.dump
      expect(
        in_child { store.adopt(dump) { |adopted| [adopted.valid?, adopted.fence > lease.fence] } }
      ).to eq([true, true])
      expect { store.adopt(dump) }.to raise_error(Plock::LeaseLost) unless copied_by_fork?
      store.break(key)
    end

    it "are good for one adoption: the second raises LeaseLost, and takes nothing from the first" do
      dump = hold(ttl: long).dump
      first = store.adopt(dump)
      expect { store.adopt(dump) { raise "entered" } }.to raise_error(Plock::LeaseLost, /#{key}/)
      expect(first.check!).to be_valid
      expect(store.status(key).fence).to eq(first.fence)
      expect(first.extend(ttl: long).release).to be(true)
      expect { store.adopt(dump) { raise "entered" } }.to raise_error(Plock::LeaseLost, /#{key}/)
      expect_free
    end

    it "let one of many in that adopt the same dump at once" do
      dump = hold(ttl: long).dump
      gate = Thread::Queue.new
      answers = Array.new(5) do
        background do
          gate.pop
          store.adopt(dump)
        rescue Plock::LeaseLost
          nil
        end
      end
      gate.close
      adopted = answers.filter_map(&:value)
      expect(adopted.size).to eq(1)
      expect(adopted.first.check!.release).to be(true)
    end

    it "hand a lease on again, each time with a greater fence, and each dump once" do
      fences = []
      dumps = [hold(ttl: long).dump]
      3.times do
        lease = store.adopt(dumps.last)
        fences << lease.fence
        dumps << lease.dump
      end
      expect(fences).to eq(fences.sort.uniq)
      dumps[0..-2].each { |dump| expect { store.adopt(dump) }.to raise_error(Plock::LeaseLost) }
      expect(store.adopt(dumps.last).release).to be(true)
    end

    it "make it the receiver's for all who look" do
      dump = hold(ttl: long, label: "who").dump
      lease, thread = background do
        [store.adopt(dump), store.acquire("#{key}:beside") { store.status("#{key}:beside").thread }]
      end.value
      expect(store.status(key)).to have_attributes(
        pid: Process.pid, thread: thread, label: "who", fence: lease.fence
      )
      lease.release
    end

    { "renew:" => { renew: true }, "on_lost:" => { on_lost: ->(_) {} } }.each do |way, options|
      it "tells a receiver with #{way} of a break at once" do
        lease = store.adopt(hold(ttl: long).dump, **options)
        expect(store.break(key)).to be(true)
        eventually(Support::StoreContract::LATE_NEWS) { lease.lost? }
      end
    end

    it "leave nothing in the hands of the one that gave it away" do
      store.acquire(key, ttl: long) do |lease|
        lease.dump
        expect(lease).to have_attributes(valid?: false, lost?: false)
        expect(lease.release).to be(false)
        expect { lease.extend }.to raise_error(Plock::LeaseLost, /handed over/)
        expect { lease.dump }.to raise_error(Plock::LeaseLost, /handed over/)
      end
      expect(store.try_acquire(key)).to be_nil
      store.break(key)
    end

    it "survive the giver's garbage collection" do
      dump = Thread.new { store.acquire(key, ttl: long).dump }.value
      2.times { GC.start }
      Plock::Dispatcher.flush
      expect(store.adopt(dump) { |adopted| adopted.valid? }).to be(true)
    end

    it "let the receiver renew it" do
      dump = store.acquire(key, ttl: renewed, renew: true).dump
      store.adopt(dump, renew: true) do |lease|
        outlive(lease.valid_until)
        expect(lease).to be_valid
      end
      expect_free
    end

    it "give it another span where that is asked for, shorter or longer, and renew by that" do
      [renewed, 5_000].each do |ttl|
        store.adopt(store.acquire(key, ttl: 1_000).dump, ttl: ttl, renew: true) do |lease|
          expect(lease).to have_attributes(ttl: ttl, remaining: be_between(ttl * 0.5, ttl))
          expect(store.status(key).remaining).to be_between(ttl * 0.5, ttl)
          over = [lease.valid_until + ttl, Plock::Clock.now + 1].min
          eventually { Plock::Clock.now > over }
          expect(lease).to be_valid
        end
        expect_free
      end
      dump = store.acquire(key, ttl: long).dump
      expect { store.adopt(dump, ttl: 0) }.to raise_error(ArgumentError, /ttl:/)
      store.break(key)
    end

    it "do not renew it in the giver's process any more" do
      dump = store.acquire(key, ttl: short, renew: true).dump
      eventually { free? }
      expect { store.adopt(dump) }.to raise_error(Plock::LeaseLost, /#{key}/)
    end

    it "keep at_least:" do
      dump = store.acquire(key, ttl: 1, at_least: 20).dump
      expect(store.adopt(dump).release).to be(true)
      expect(store.status(key)).to have_attributes(held?: true, remaining: be_between(15, 20.1))
      store.break(key)
    end

    it "keep at_least: as their ttl when they are adopted for a shorter time, as in acquire" do
      lease = store.adopt(store.acquire(key, at_least: 20).dump, ttl: 1)
      expect(lease).to have_attributes(
        valid?: true, ttl: be_between(15, 20.1), remaining: be_between(15, 20.1)
      )
      expect(store.status(key).remaining).to be_between(15, 20.1)
      store.adopt(lease.dump, ttl: 60) do |longer|
        expect(longer).to have_attributes(ttl: 60.0, remaining: be_between(55, 60.1))
      end
      store.break(key)
    end

    it "keep nothing that was not asked for, and can be adopted at any wall-clock time" do
      [-400 * 86_400, -3600, 3600].each do |jump|
        dump = hold(ttl: long).dump
        Support::WallClock.ahead(jump) do
          expect(store.adopt(dump).release).to be(true)
          expect_free
        end
      end
    end

    it "raise LeaseLost where it was broken meanwhile, and leave the next one's alone" do
      dump = store.acquire(key, ttl: long).dump
      store.break(key)
      other = hold(ttl: long)
      expect { store.adopt(dump) { raise "entered" } }.to raise_error(Plock::LeaseLost)
      expect(other.release).to be(true)
    end

    it "can be interrupted at whatever step: it is released, or can still be adopted" do
      steps = nil
      heard = warnings do
        first, stride = respond_to?(:share_of_steps) ? share_of_steps : [1, 1]
        steps = (first..5_000).step(stride).find do |step|
          dump = store.acquire(key, ttl: long).dump
          interrupted = interrupted_at(step) { store.adopt(dump) { nil } }
          adopt_unless_freed(dump)
          !interrupted
        end
        2.times { GC.start }
        Plock::Dispatcher.flush
      end
      expect([heard, steps]).to match([[], be > 10])
    end

    it "keep at_least: if the adoption is interrupted, and no longer" do
      dump = store.acquire(key, ttl: long * 10, at_least: long).dump
      subscription = Plock.subscribe(:adopt) { raise Interrupt }
      expect { store.adopt(dump) { raise "entered" } }.to raise_error(Interrupt)
      expect(store.status(key)).to have_attributes(
        held?: true, remaining: be_between(1, long + 0.1)
      )
      expect { store.adopt(dump) { nil } }.to raise_error(Plock::LeaseLost)
    ensure
      Plock.unsubscribe(subscription)
      store.break(key)
    end

    it "leave nothing behind but at_least:, at whatever step they are interrupted" do
      # After the adopted lease is released, at_least: keeps the key for at most `long`. If more is
      # left, the lease was not adopted, or the adopted lease was not released.
      left = -> { (store.status(key).remaining || 0) > long + 0.1 }
      dump = nil
      interrupted_everywhere(-> { store.adopt(dump) { nil } if dump }) do
        adopt_again(dump) if dump && left.call
        eventually(Support::StoreContract::LATE_NEWS, "it was not released") { !left.call }
        store.break(key)
        dump = store.acquire(key, ttl: long * 10, at_least: long).dump
      end
      store.break(key)
    end

    { "is interrupted" => false, "is cut off by a signal handler that raises" => true }
      .each do |what, by_signal|
      it "leave nothing behind if a dump #{what}, at whatever step before its return" do
        lease = nil
        dump = -> { (@interrupted_in = nil) || lease&.dump }
        interrupted_everywhere(dump, by_signal: by_signal) do
          returned = @interrupted_in.nil? || @interrupted_in == [Plock::Lease, :dump, :return]
          lease&.release
          store.break(key) if returned
          eventually(Support::StoreContract::LATE_NEWS, @interrupted_in.inspect) { free? }
          lease = store.acquire(key, ttl: long * 10)
        end
        lease.release
      end
    end

    it "can be handed back under its earlier dump, at whatever step a signal handler raises" do
      earlier = later = nil
      hand_back = -> { store.hand_back(later, earlier, long) if later }
      interrupted_everywhere(hand_back, by_signal: true) do
        if later
          dump = [earlier, later].find do |each|
            store.adopt(each) { true }
          rescue Plock::LeaseLost
            nil
          end
          expect(dump).not_to be_nil, "lost after #{@interrupted_in.inspect}"
        end
        earlier = store.acquire(key, ttl: long).dump
        later = store.adopt(earlier).dump
      end
      store.break(key)
    end

    it "leave nothing behind if a subscriber ends the thread that dumps it" do
      subscription = Plock.subscribe(:hand_over) { raise Interrupt }
      expect { store.acquire(key, ttl: long, &:dump) }.to raise_error(Interrupt)
      expect_free
    ensure
      Plock.unsubscribe(subscription)
    end

    # The stand-in for Process does not fork. So this process hands the lease over, and then takes
    # it over itself.
    it "move a lease to a daemon or release it, at whatever step a signal handler raises" do
      process = Object.new.tap { |object| object.define_singleton_method(:daemon) { |*| 0 } }
      process.singleton_class.prepend(Plock::Daemon)
      inside = []
      become_daemon = -> do
        store.acquire(key, ttl: long * 10) do |lease|
          process.daemon
          inside << lease.check!.valid?
        end
      end
      warnings do # of leases that were released while the daemon took them over
        interrupted_everywhere(become_daemon, by_signal: true) do
          eventually(Support::StoreContract::LATE_NEWS, @interrupted_in.inspect) { free? }
        end
      end
      expect(inside).to include(true).and all(be(true))
    end

    it "refuse what is not the dump of a lease" do
      [
        nil, 5, "", "plock1:", "plock1:aw==:0:nonsense", "plock1:%%:0:x", "plock2:aw==:0:x",
        "plock1:aw==:soon:x", "plock1:aw==:0:x".encode("UTF-16LE"), "plock1:aw==:0:\xFF"
      ].each do |nonsense|
        expect { store.adopt(nonsense) }.to raise_error(ArgumentError), nonsense.inspect
      end
    end
  end
end
