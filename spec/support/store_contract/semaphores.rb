# frozen_string_literal: true

RSpec.shared_examples "a store of semaphores" do
  long = Support::StoreContract::LONG

  describe "#semaphore" do
    def semaphore(permits) = store.semaphore(key, permits: permits)

    # Acquires this many leases. They are released after the example.
    def take(count, permits: count, **options)
      Array.new(count) do
        kept(semaphore(permits).acquire(ttl: Support::StoreContract::LONG, wait: 0, **options))
      end
    end

    # Returns how many of the permits are free.
    def left(permits)
      leases = Array.new(permits) { semaphore(permits).try_acquire }.compact
      leases.each(&:release).size
    end

    it "lets so many in, and no more" do
      leases = take(3)
      expect(semaphore(3).try_acquire).to be_nil
      expect { semaphore(3).acquire(wait: 0.02) { raise "entered" } }.to raise_error(
        Plock::TimeoutError
      ) { |error|
        held = /held since .*, and by 2 more, \d waiting#{Support::StoreContract::AT_NODE}/
        expect(error.message).to match(/\Acould not acquire "#{key}" within 0.02 s: #{held}\z/)
        expect(error.status.holders.map(&:fence)).to eq(leases.map(&:fence))
      }
      # the store removes the waiter from the queue in the background
      eventually { semaphore(3).status.waiters.empty? }
      leases[1].release
      expect(semaphore(3).try_acquire { :entered }).to be(:entered)
    end

    it "never admits more, however holders come and go" do
      inside = 0
      most = Queue.new
      counting = Mutex.new
      threads = Array.new(6) do
        background do
          8.times do
            semaphore(2).acquire(ttl: long, wait: long) do
              most << counting.synchronize { inside += 1 }
              Thread.pass
              counting.synchronize { inside -= 1 }
            end
          end
        end
      end
      threads.each(&:join)
      expect(Array.new(most.size) { most.pop }.max).to be <= 2
      expect_nobody(semaphore(2))
    end

    it "serves who waits in the order in which they came" do
      _kept, lease = take(2)
      fences = Queue.new
      waiters = Array.new(8) do |number|
        wait_in_line(number + 1, semaphore(2)) do
          semaphore(2).acquire(ttl: long, wait: long) { |own| fences << [own.fence, number] }
        end
      end
      # Only one of the two permits becomes free, so the waiters enter one after another. Waiters
      # that are admitted together may enter in any order.
      lease.release
      waiters.each(&:join)
      expect(Array.new(8) { fences.pop }.sort.map(&:last)).to eq([*0...8])
    end

    it "lets in as many as are next when several leave" do
      leases = take(2)
      entered = Queue.new
      leave = Queue.new
      waiters = Array.new(4) do |number|
        wait_in_line(number + 1, semaphore(2)) do
          semaphore(2).acquire(ttl: long, wait: long) { (entered << number) && leave.pop }
        end
      end
      leases.each(&:release)
      [[0, 1], [2, 3]].each do |next_ones|
        expect(Array.new(2) { entered.pop }).to match_array(next_ones)
        expect(entered).to be_empty
        2.times { leave << true }
      end
      waiters.each(&:join)
    end

    it "gives the turn of one who goes away to the next" do
      lease, = take(1)
      waiters = Array.new(3) do |number|
        wait_in_line(number + 1, semaphore(1)) do
          semaphore(1).acquire(ttl: long, wait: long) { number }
        end
      end
      waiters[0].kill.join
      waiters[1].raise(IOError, "out")
      expect { waiters[1].join }.to raise_error(IOError)
      await_waiters(1, semaphore(1))
      lease.release
      expect(waiters[2].value).to be(2)
    end

    it "lists its holders and waiters" do
      take(2, label: "inside")
      waiter =
        wait_in_line(1, semaphore(2)) { semaphore(2).acquire(wait: long, label: "outside") { nil } }
      status = semaphore(2).status
      expect(status.holders.map(&:label)).to eq(%w[inside inside])
      expect(status.waiters).to match(
        [
          have_attributes(
            label: "outside", pid: Process.pid, mode: nil, since: be_within(10).of(Time.now)
          )
        ]
      )
      waiter.kill.join
    end

    it "breaks all who hold it, and lets in who waits" do
      leases = take(2, on_lost: ->(_) {})
      entered = Queue.new
      leave = Queue.new
      waiters = Array.new(3) do |number|
        wait_in_line(number + 1, semaphore(2)) do
          semaphore(2).acquire(ttl: long, wait: long) { (entered << number) && leave.pop }
        end
      end
      expect(semaphore(2).break).to be(true)
      expect([entered.pop, entered.pop]).to match_array([0, 1])
      expect(entered).to be_empty
      eventually { leases.all?(&:lost?) }
      3.times { leave << true }
      waiters.each(&:join)
    end

    it "is taken from the holders that a status has, and not from those that came later" do
      seen = kept(semaphore(3).acquire(ttl: long))
      released = semaphore(3).acquire(ttl: long)
      status = semaphore(3).status
      released.release
      later = Array.new(2) { kept(semaphore(3).acquire(ttl: long)) }
      waiter = wait_in_line(1, semaphore(3)) { semaphore(3).acquire(ttl: long, wait: long) }
      expect(store.break(status)).to be(true)
      later << kept(waiter.value)
      expect(store.break(status)).to be(false)
      expect([seen, *later].map(&:release)).to eq([false, true, true, true])
    end

    it "works for one, and for as many as 65535" do
      expect(semaphore(1).acquire { semaphore(1).try_acquire.nil? }).to be(true)
      expect(semaphore(65_535).acquire { semaphore(65_535).acquire(wait: 0) { :entered } }).to be(
        :entered
      )
    end

    it "refuses a number of permits that cannot be right" do
      [0, -1, 65_536, 1.5, "3", nil].each do |permits|
        expect { store.semaphore(key, permits: permits) }.to raise_error(ArgumentError, /permits:/)
      end
    end

    # Each of these was once a bug in another semaphore implementation.
    describe "never gains or loses a permit" do
      it "by a lease that is released twice" do
        one, = take(2)
        expect([one.release, one.release]).to eq([true, false])
        expect(left(2)).to be(1)
        take(1, permits: 2)
        expect([one.release, left(2)]).to eq([false, 0])
      end

      it "by the death of holders" do
        leases = take(2)
        expect(left(2)).to be(0)
        leases.each { |lease| lease.extend(ttl: short) } # now all leases expire
        eventually { free?(semaphore(2)) }
        expect(left(2)).to be(2)
      end

      it "by holders that the garbage collector finds" do
        warnings do
          Thread.new { semaphore(2).acquire(ttl: long) && nil }.join
          eventually(10) { GC.start || free?(semaphore(2)) }
          Plock::Dispatcher.flush
        end
        expect(left(2)).to be(2)
      end

      it "by the late release of a lease whose time is over" do
        late, = take(1, permits: 2, ttl: short)
        eventually { free?(semaphore(2)) }
        others = take(2)
        expect(late.release).to be(false)
        expect(left(2)).to be(0)
        others.each(&:release)
        expect(left(2)).to be(2)
      end

      it "by the late extension of a lease whose time is over" do
        late, = take(1, permits: 2, ttl: short)
        eventually { free?(semaphore(2)) }
        take(2)
        expect { late.extend }.to raise_error(Plock::LeaseLost)
        expect(semaphore(2).status.holders.size).to be(2)
      end

      it "by permits: that are lowered while it is held" do
        leases = take(3)
        expect(semaphore(2).try_acquire).to be_nil
        waiter =
          wait_in_line(1, semaphore(2)) do
            semaphore(2).acquire(ttl: long, wait: long) { semaphore(2).status.holders.size }
          end
        leases[0].release
        expect(semaphore(2).status).to have_attributes(
          holders: have_attributes(size: 2), waiters: have_attributes(size: 1)
        )
        leases[1].release
        expect(waiter.value).to be(2)
        leases[2].release
        expect(left(2)).to be(2)
      end

      it "by permits: that are raised while it is held" do
        one, = take(1)
        two = kept(semaphore(2).acquire(wait: 0))
        expect(semaphore(2).try_acquire).to be_nil
        expect([one.release, two.release]).to eq([true, true])
        expect(left(2)).to be(2)
      end

      # When the holder releases its lease, there is room for both waiters. Either may enter first.
      it "by permits: that are raised while a waiter knows the lower number: none passes it" do
        lease, = take(1)
        first =
          wait_in_line(1, semaphore(1)) { semaphore(1).acquire(ttl: long, wait: long, &:fence) }
        expect(semaphore(9).try_acquire).to be_nil
        second =
          wait_in_line(2, semaphore(9)) { semaphore(9).acquire(ttl: long, wait: long, &:fence) }
        lease.release
        expect([first.value, second.value]).to all(be > lease.fence)
      end

      it "by a waiter with a lower number that leaves: the waiter behind it is admitted" do
        take(1)
        first =
          wait_in_line(1, semaphore(1)) do
            semaphore(1).acquire(ttl: long, wait: long) { raise "entered" }
          end
        second =
          wait_in_line(2, semaphore(2)) { semaphore(2).acquire(ttl: long, wait: long) { :entered } }
        first.kill.join
        expect(second.join(5)&.value).to be(:entered)
      end

      it "by a waiter that times out: the waiter behind it is admitted" do
        take(1)
        first = wait_in_line(1, semaphore(1)) { semaphore(1).try_acquire(wait: a_while) }
        second =
          wait_in_line(2, semaphore(2)) { semaphore(2).acquire(ttl: long, wait: long) { :entered } }
        expect([first.value, second.join(5)&.value]).to eq([nil, :entered])
      end
    end

    describe "under a Fiber scheduler", :fibers do
      it "lets so many fibers in, and the others run when their turn comes" do
        inside = most = 0
        Sync do |task|
          fibers = Array.new(6) do
            task.async do
              semaphore(2).acquire(ttl: long, wait: long) do
                most = [most, inside += 1].max
                eventually { most == 2 }
                sleep 0.002
                inside -= 1
              end
            end
          end
          fibers.each(&:wait)
        end
        expect(most).to be(2)
        expect_nobody(semaphore(2))
      end
    end
  end
end
