# frozen_string_literal: true

RSpec.shared_examples "a store of leases" do |unable = []|
  long = Support::StoreContract::LONG

  describe "a lease" do
    it "says what it is" do
      store.acquire(key, ttl: 60, label: "why") do |lease|
        expect(lease).to have_attributes(
          key: key, ttl: 60.0, label: "why", valid?: true, lost?: false, fence: be_an(Integer)
        )
        expect(lease.token).to match(/\A\h{8}-\h{4}-4\h{3}-[89ab]\h{3}-\h{12}\z/)
        expect(lease.store_key).to match(
          respond_to?(:name_in_store) ? name_in_store : /\Aplock:v1:\h{64}\z/
        )
        expect(lease.remaining).to be_between(50.0, 60.0)
        most = lease.valid_until - Plock::Clock.now
        left = lease.remaining
        expect(left).to be_between(lease.valid_until - Plock::Clock.now, most)
        expect(lease.held_for).to be_between(0.0, 5.0)
        expect(lease.check!).to be(lease)
      end
    end

    it "does not show its token" do
      store.acquire(key) do |lease|
        expect([lease.inspect.include?(key), lease.inspect.include?(lease.token)]).to eq(
          [true, false]
        )
      end
    end

    it "has a greater fence than the one before, whatever ended that" do
      fences = [
        store.acquire(key, &:fence),
        store.acquire(key, on_lost: ->(_) {}) { |lease| store.break(key) && lease.fence },
        hold(ttl: short).fence, # this lease expires
        *Array.new(20) { store.acquire(key, wait: long, &:fence) }
      ]
      expect(fences.each_cons(2)).to all(satisfy { |earlier, later| earlier < later })
    end

    it "can be extended by another thread while its block ends, " \
       "with nothing left and no loss reported" do
      lost = Thread::Queue.new
      heard = warnings do
        20.times do
          beat = nil
          store.acquire(key, ttl: long, on_lost: lost.method(:push)) do |lease|
            begun = Thread::Queue.new
            beat = background do
              loop { lease.extend(ttl: long) && begun << true }
            rescue Plock::LeaseLost => e
              e.message
            end
            begun.pop
          end
          expect(beat.value).to match(/is released/)
          expect_free
        end
      end
      Plock::Dispatcher.flush
      expect([heard, lost.size]).to eq([[], 0])
    end

    it "can be released by two threads at once: once is true" do
      lease = store.acquire(key, ttl: long)
      answers = Array.new(2) { background { lease.release } }.map(&:value)
      expect(answers).to contain_exactly(true, false)
      expect(lease).not_to be_lost
    end

    it "is not valid any more when it is released, but not lost" do
      lease = hold
      lease.release
      expect(lease).to have_attributes(valid?: false, lost?: false, remaining: 0.0)
      expect { lease.check! }.to raise_error(Plock::LeaseLost, /released/)
    end

    it "can be released twice: the second time does nothing" do
      lease = hold
      expect(lease.release).to be(true)
      other = hold
      expect(lease.release).to be(false)
      expect(other).to be_valid
      expect(store.status(key).fence).to eq(other.fence)
      other.release
    end

    it "can be released in its block, and after it" do
      kept = store.acquire(key) do |lease|
        lease.release
        expect_free
        lease
      end
      other = hold
      expect(kept.release).to be(false)
      expect(other.release).to be(true)
    end

    it "ends with its time, and passes on" do
      lease = hold(ttl: short)
      expect(store.acquire(key, wait: long) { lease.lost? }).to be(true)
      expect(lease).to have_attributes(valid?: false, remaining: 0.0)
      expect(lease.release).to be(false)
      expect { lease.check! }.to raise_error(Plock::LeaseLost) { |error|
        expect(error.lease).to be(lease)
      }
      expect { lease.extend }.to raise_error(Plock::LeaseLost)
    end
  end

  describe "Lease#extend" do
    it "gives it a new span, by default the same again" do
      store.acquire(key, ttl: 20) do |lease|
        expect(lease.extend(ttl: 60)).to be(lease)
        expect(lease).to have_attributes(ttl: 60.0, remaining: be_between(50, 60))
        expect(store.status(key).remaining).to be_between(50, 61)
        expect(lease.extend(ttl: 20).remaining).to be_between(10, 20)
      end
    end

    it "raises LeaseLost if it was broken, and leaves the next holder's lease alone" do
      lease = hold
      store.break(key)
      other = hold(ttl: long)
      expect { lease.extend(ttl: 60) }.to raise_error(Plock::LeaseLost)
      expect(lease).to be_lost
      expect(store.status(key)).to have_attributes(fence: other.fence, remaining: be <= long)
      other.release
    end

    it "refuses a span that cannot be right" do
      store.acquire(key) do |lease|
        expect { lease.extend(ttl: 0) }.to raise_error(ArgumentError, /ttl:/)
      end
    end
  end

  describe "renew: true" do
    def outlives(lease)
      outlive(lease.valid_until, lease.ttl)
      expect(lease).to be_valid
    end

    it "outlives its ttl, until it is released" do
      store.acquire(key, ttl: renewed, renew: true) do |lease|
        outlive(lease.valid_until)
        expect(lease).to be_valid
        expect(store.try_acquire(key)).to be_nil
      end
      expect_free
    end

    # In the first run, a store may open the connection on which it listens. It then checks
    # all its leases, which may hide a mistake. So the block runs twice.
    it "keeps up with a span that was shortened, and with one that was lengthened" do
      2.times do
        store.acquire(key, ttl: 1_000, renew: true) do |lease|
          outlives(lease.extend(ttl: renewed))
          expect(store.status(key).remaining).to be <= renewed
          expect(lease.extend(ttl: 1_000).remaining).to be > 900
        end
        expect_free
      end
    end

    unless unable.include?(:hand_over)
      it "keeps up with a span that was shortened when it was adopted" do
        2.times do
          store.adopt(store.acquire(key, ttl: 1_000).dump, renew: true) do |lease|
            outlives(lease.extend(ttl: renewed))
          end
          expect_free
        end
      end
    end

    it "ends with max_hold:" do
      started = Plock::Clock.now
      lease = hold(ttl: renewed, renew: true, max_hold: 2 * renewed)
      held_for = lease.held_for
      granted_at = Plock::Clock.now - held_for
      eventually(8 * renewed) { lease.lost? }
      expect(Plock::Clock.now - started).to be >= 1.9 * renewed
      expect(lease.valid_until).to be <= granted_at + 3 * renewed # `max_hold:` ended the renewals
      eventually { free? } # for its holder, the lease ends a little before the key is free
    end

    next if unable.include?(:busy_renewal)

    include Support::BusyRuby

    it "goes on while Ruby cannot run anything else for three times as long", :timing do
      ttl = 3 * Support::StoreContract::SHORT # enough if nothing else runs on the machine
      store.acquire(key, ttl: ttl, renew: true) do |lease|
        expect(longest_silence { hold_gvl(3 * ttl) }).to be > 3 * ttl
        expect(lease.check!).to be(lease)
      end
    end
  end

  describe "at_least:" do
    it "keeps the key taken for the rest of that time, also after the release" do
      lease = hold(ttl: 1, at_least: 20)
      expect(lease.release).to be(true)
      expect(store.try_acquire(key)).to be_nil
      expect(store.status(key)).to have_attributes(held?: true, remaining: be_between(15, 20.1))
      expect(lease).to have_attributes(valid?: false, lost?: false)
      expect(lease.release).to be(false)
      store.break(key)
      expect_free
    end

    it "is not shortened by an extension" do
      lease = hold(ttl: 1, at_least: 20)
      lease.extend(ttl: 2)
      lease.release
      expect(store.status(key).remaining).to be_between(15, 20.1)
      store.break(key)
    end

    it "keeps nothing taken where the release says so" do
      expect(hold(ttl: 1, at_least: 20).release(keep: false)).to be(true)
      expect_free
    end

    unless unable.include?(:hand_over)
      it "ends the lease even so: a late adoption does not extend it" do
        dumps = [hold(ttl: long, at_least: 20).dump]
        lease = store.adopt(dumps.first)
        dumps << lease.dump
        expect(store.adopt(dumps.last).release).to be(true)
        dumps.each { |dump| expect { store.adopt(dump, ttl: 60) }.to raise_error(Plock::LeaseLost) }
        expect(store.status(key)).to have_attributes(held?: true, remaining: be_between(15, 20.1))
        store.break(key)
        expect_free
      end
    end

    it "frees it when the time is over" do
      started = Plock::Clock.now
      store.acquire(key, at_least: short) { nil }
      store.acquire(key, wait: long) { nil }
      expect(Plock::Clock.now - started).to be >= short * 0.97
    end

    it "frees it at the release where that time is over before" do
      lease = hold(at_least: 0.02)
      given_at = Plock::Clock.now
      eventually { Plock::Clock.now - given_at > 0.02 }
      lease.release
      expect_free
    end
  end

  describe "in a forked child" do
    it "is not valid, and is not released by anything that the child does" do
      store.acquire(key, ttl: long) do |lease|
        expect(in_child { [lease.valid?, lease.lost?, lease.release, lease.remaining] }).to eq(
          [false, false, false, 0.0]
        )
        expect { in_child { lease.check! } }.to raise_error(
          Support::Child::Failed, /LeaseLost.*parent/
        )
        expect(lease).to be_valid
        expect(store.try_acquire(key)).to be_nil
      end
      expect_free
    end

    it "is not lost either when its time is over: that is the parent's to say" do
      lease = hold(ttl: short)
      child = in_child do
        eventually { free? }
        [lease.valid?, lease.lost?]
      end
      expect(child).to eq([false, false])
    end

    it "that leaves the block, it stays with the parent" do
      reader, writer = IO.pipe
      parent = Process.pid
      store.acquire(key, ttl: long) do |lease|
        if (pid = Process.fork)
          Process.wait(pid)
          expect(reader.readpartial(8)).to eq("held")
          expect(lease.check!).to be(lease)
        end
      end
      if Process.pid != parent # the child has left the block
        writer.write(free? ? "free" : "held")
        exit!(0)
      end
      expect_free
    ensure
      exit!(1) if Process.pid != parent
      [reader, writer].each(&:close)
    end

    it "the store works" do
      expect(
        in_child do
          store.acquire(key) { |lease| lease.valid? && store.status(key).pid == Process.pid }
        end
      ).to be(true)
    end
  end

  describe "that is no longer referenced" do
    it "is released when it is collected, and warned of" do
      heard = warnings do
        # another thread, so that this thread's stack has no reference to the lease
        Thread.new { store.acquire(key, ttl: long) && nil }.join
        eventually(10) { GC.start || free? }
        Plock::Dispatcher.flush
      end
      expect(heard).to match([/#{Regexp.escape(store.status(key).store_key)}.*collected/])
    end

    it "is not warned of where its loss is known already" do
      # The thread keeps references to the leases until they are lost. A lease that is
      # garbage-collected earlier causes a warning, and rightly so.
      Thread.new do
        over = store.acquire(key, ttl: short)
        broken = store.acquire("#{key}:broken", ttl: long, on_lost: ->(_) {})
        store.break("#{key}:broken")
        eventually { over.lost? && broken.lost? }
      end.join
      eventually { free? }
      3.times { GC.start }
      Plock::Dispatcher.flush
    end

    it "is left alone when it was released" do
      Thread.new { store.acquire(key).release }.join
      lease = hold(ttl: long)
      2.times { GC.start }
      Plock::Dispatcher.flush
      expect(store.status(key).fence).to eq(lease.fence)
      lease.release
    end
  end
end
