# frozen_string_literal: true

RSpec.shared_examples "a store of readers and writers" do |unable = []|
  long = Support::StoreContract::LONG

  describe "#read_write_lock" do
    let(:lock) { store.read_write_lock(key) }

    # Starts a thread that holds the lock. Returns its lease, and a lambda that ends its block.
    def inside(method, **options)
      entered = Queue.new
      leave = Queue.new
      thread = background do
        lock.public_send(
          method, ttl: Support::StoreContract::LONG, wait: Support::StoreContract::LONG, **options
        ) do |lease|
          entered << lease
          leave.pop
        end
      end
      [entered.pop, -> { (leave << true) && thread.join(5) }]
    end

    # Starts a thread that waits at this place in the queue. The thread's value is an Array: the
    # fence of its lease, and what the block returns.
    def waiting(place, method, **options)
      wait_in_line(place, lock) do
        lock.public_send(
          method, ttl: Support::StoreContract::LONG, wait: Support::StoreContract::LONG, **options
        ) { |lease| [lease.fence, *(yield lease if block_given?)] }
      end
    end

    def modes = lock.status.holders.map(&:mode)

    # Expects that the store refuses the block's call at once, because this fiber holds the lock.
    def expect_refusal(words)
      started = Plock::Clock.now
      expect { yield }.to raise_error(Plock::UnsupportedError, words) { |error|
        expect(error.code).to be(:unsupported)
      }
      expect(Plock::Clock.now - started).to be < store.config.wait
    end

    it "admits many readers at a time, and no writer beside them" do
      leave = Array.new(3) { inside(:read).last }
      expect(modes).to eq(%i[read read read])
      expect(lock.try_read { :entered }).to be(:entered)
      expect(lock.try_write).to be_nil
      expect { lock.write(wait: 0.02) { raise "entered" } }
        .to raise_error(Plock::TimeoutError, /held for reading since .*, and by 2 more, \d waiting/)
      eventually { lock.status.waiters.empty? } # the waiter leaves the queue in the background
      leave.each(&:call)
      expect(lock.try_write { modes }).to eq([:write])
    end

    it "admits one writer at a time, and no reader beside it" do
      _lease, leave = inside(:write)
      expect([lock.try_write, lock.try_read]).to eq([nil, nil])
      expect { lock.read(wait: 0.02) { raise "entered" } }.to raise_error(
        Plock::TimeoutError, /held for writing since .*, \d waiting/
      )
      eventually { lock.status.waiters.empty? }
      leave.call
      expect(lock.try_read { modes }).to eq([:read])
    end

    it "tells who waits for what" do
      _lease, leave = inside(:read)
      writer = waiting(1, :write, label: "import")
      reader = waiting(2, :read, label: "report")
      expect(lock.status).to have_attributes(
        kind: :read_write, holders: [have_attributes(mode: :read)]
      )
      expect(lock.status.waiters.map { |waiter| [waiter.mode, waiter.label, waiter.pid] })
        .to eq([[:write, "import", Process.pid], [:read, "report", Process.pid]])
      leave.call
      [writer, reader].each(&:join)
    end

    it "makes a writer wait for the readers, and later readers wait for the writer" do
      _lease, leave = inside(:read)
      writer = waiting(1, :write) { modes }
      reader = waiting(2, :read) { modes }
      expect([lock.try_read, lock.try_write]).to eq([nil, nil])
      leave.call
      expect([writer.value.last, reader.value.last]).to eq(%i[write read])
      expect(writer.value.first).to be < reader.value.first
    end

    it "serves readers and writers in the order in which they came, readers beside readers" do
      _lease, leave = inside(:write)
      together = Queue.new
      line = %i[write read read write read].each_with_index.map do |method, number|
        waiting(number + 1, method) do
          next unless method == :read && number < 3

          together << true
          eventually(5) { together.size == 2 } # both must be inside before one of them leaves
        end
      end
      leave.call
      fences = line.map { |thread| thread.value.first }
      expect([fences[0], *fences[1..2].minmax, *fences[3..]]).to eq(fences.sort)
    end

    it "starves no writer where readers come and go" do
      stop = false
      readers =
        Array.new(3) { background { lock.read(ttl: long, wait: long) { Thread.pass } until stop } }
      expect(Array.new(5) { lock.write(ttl: long, wait: 10) { modes } }).to all(eq([:write]))
      stop = true
      readers.each(&:join)
    end

    it "starves no reader where writers come and go" do
      stop = false
      writers =
        Array.new(3) { background { lock.write(ttl: long, wait: long) { Thread.pass } until stop } }
      expect(Array.new(5) { lock.read(ttl: long, wait: 10) { modes.uniq } }).to all(eq([:read]))
      stop = true
      writers.each(&:join)
    end

    it "lets readers in at once when the writer before them goes away" do
      _lease, leave = inside(:read)
      writer = waiting(1, :write) { raise "entered" }
      readers = [waiting(2, :read), waiting(3, :read)]
      writer.kill.join
      expect(readers.map { |thread| thread.join(5) }).to all(be_a(Thread))
      leave.call
    end

    it "lets readers in at once when the patience of the writer before them ends" do
      _lease, leave = inside(:read)
      writer = wait_in_line(1, lock) { lock.try_write(wait: a_while) }
      reader = waiting(2, :read)
      expect([writer.value, reader.join(5)]).to match([nil, a_kind_of(Thread)])
      leave.call
    end

    it "does not wait for a dead reader longer than its lease lasts" do
      started = Plock::Clock.now
      dead = kept(lock.read(ttl: short)) # stands in for the lease of a dead reader
      Thread.new { lock.write(ttl: long, wait: long) { nil } }.join
      expect(Plock::Clock.now - started).to be_between(short * 0.97, short + 5)
      expect(dead.release).to be(false)
    end

    it "breaks all who read, and lets in who waits" do
      leases = Array.new(2) { inside(:read, on_lost: ->(_) {}) }
      writer = waiting(1, :write) { modes }
      expect(lock.break).to be(true)
      expect(writer.value.last).to be(:write)
      eventually { leases.all? { |lease, _| lease.lost? } }
      leases.each { |_, leave| leave.call }
    end

    it "tells of the mode in events" do
      events = events_of(/contended|timeout/) do
        _lease, leave = inside(:write)
        lock.try_read(wait: 0.01)
        leave.call
      end
      expect(events.map { |event| [event.name, event.details[:mode]] }).to eq(
        [%i[contended read], %i[timeout read]]
      )
    end

    describe "in one fiber" do
      it "lets a reader read again, with the same lease and without a look at the store" do
        lock.read(ttl: long, label: "first") do |lease|
          expect(store).not_to receive(:fill)
          again =
            lock.read { |own| store.read_write_lock(key.to_sym).try_read { |third| [own, third] } }
          expect(again).to eq([lease, lease])
          expect([lease.valid?, modes]).to eq([true, [:read]])
        end
        expect_free(lock)
      end

      it "lets a reader read again while a writer waits for it" do
        writer = nil
        lock.read(ttl: long) do
          writer = waiting(1, :write)
          expect(lock.read { :again }).to be(:again)
        end
        expect(writer.join(5)).to be(writer)
      end

      it "refuses a reader who asks to write, and says what to do" do
        lock.read(ttl: long) do
          expect_refusal(/reads "#{key}" already.*release the lease/) do
            lock.write { raise "entered" }
          end
          expect_refusal(/reads/) { lock.try_write }
          expect_refusal(/reads/) { store.read_write_lock(key).write }
          expect(lock.status.waiters).to be_empty
        end
        expect(lock.write { :entered }).to be(:entered)
      end

      it "refuses a reader who wants a second lease" do
        lease = kept(lock.read(ttl: long))
        expect_refusal(/with a block/) { lock.read }
        expect(lock.read { |own| own }).to be(lease)
        expect(lease.release).to be(true)
        expect(kept(lock.read)).not_to be(lease)
      end

      it "refuses a writer everything, and says what to do" do
        lock.write(ttl: long) do
          expect_refusal(/writes "#{key}" already.*downgrade/) { lock.read { raise "entered" } }
          expect_refusal(/use the lease/) { lock.write { raise "entered" } }
          expect_refusal(/writes/) { lock.try_write }
          expect_refusal(/writes/) { lock.try_read }
        end
        expect(lock.read { :entered }).to be(:entered)
      end

      it "checks the arguments even so" do
        lock.read { expect { lock.read(ttl: 0) { nil } }.to raise_error(ArgumentError, /ttl:/) }
      end

      it "forgets a lease that was lost, or handed over" do
        lock.read(ttl: long, on_lost: ->(_) {}) do |lease|
          lock.break
          eventually { lease.lost? }
          expect(lock.write { modes }).to eq([:write])
        end
        next if unable.include?(:hand_over)

        dump = lock.read(ttl: long).dump
        expect(lock.try_write).to be_nil
        expect(store.adopt(dump).release).to be(true)
      end

      it "does not keep an unreferenced lease from being collected" do
        heard = warnings do
          thread = background do
            lock.read(ttl: long)
            eventually(10) { GC.start || free?(lock) }
            lock.write { :entered }
          end
          expect(thread.value).to be(:entered)
          Plock::Dispatcher.flush
        end
        expect(heard).to match([/collected/])
      end

      it "does not take another key's lease, or another store's, for this one's" do
        lock.read(ttl: long) do
          expect(store.read_write_lock("#{key}'").write { :entered }).to be(:entered)
        end
      end

      it "is not the other fibers of the thread", :fibers do
        lock.read(ttl: long) do
          Fiber
            .new do
              expect([lock.try_write, lock.try_read { |lease| lease }]).to match(
                [nil, a_kind_of(Plock::Lease)]
              )
            end
            .resume
        end
      end

      it "is not a forked child's: that owns nothing" do
        lock.read(ttl: long) do |lease|
          expect(in_child { [lock.try_write, lock.try_read { |own| own.equal?(lease) }] }).to eq(
            [nil, false]
          )
          expect(lock.read { |own| own }).to be(lease)
        end
      end

      it "remembers no more than it needs" do
        20.times { |number| store.read_write_lock("#{key}:#{number}").read { nil } }
        places = Plock::Locking::OwnShares.here.instance_variable_get(:@places)
        expect(places.size).to be <= 16
      end
    end

    unless unable.include?(:downgrade)
      describe "Lease#downgrade" do
        it "goes on reading, with the same lease" do
          lock.write(ttl: long) do |lease|
            facts = [lease.token, lease.fence]
            expect(lease.downgrade).to be(lease)
            expect([lease.token, lease.fence]).to eq(facts)
            expect(lease).to have_attributes(valid?: true, mode: :read)
            expect(modes).to eq([:read])
            expect(lock.read { |own| own }).to be(lease)
            expect_refusal(/reads/) { lock.write }
          end
          expect_free(lock)
        end

        it "lets in who waits to read, and no writer before the reader has left" do
          lease = lock.write(ttl: long)
          readers = [waiting(1, :read) { modes }, waiting(2, :read) { modes }]
          lease.downgrade
          expect(readers.map { |thread| thread.value[1..].uniq }).to eq([[:read], [:read]])
          writer = waiting(1, :write) { modes }
          expect(writer.join(0.05)).to be_nil
          lease.release
          expect(writer.value.last).to be(:write)
        end

        it "admits no reader ahead of a waiting writer" do
          lease = lock.write(ttl: long)
          writer = waiting(1, :write) { modes }
          reader = waiting(2, :read)
          lease.downgrade
          expect(Thread.new { lock.try_read }.value).to be_nil
          expect([modes, lock.status.waiters.map(&:mode)]).to eq([[:read], %i[write read]])
          lease.release
          expect(writer.value.first).to be < reader.value.first
        end

        it "goes on being renewed, and can be extended" do
          lock.write(ttl: renewed, renew: true) do |lease|
            lease.downgrade
            outlive(lease.valid_until)
            expect([lease.valid?, modes]).to eq([true, [:read]])
            expect(lease.extend(ttl: 60).remaining).to be > 50
          end
        end

        unless unable.include?(:hand_over)
          it "can be handed over" do
            dump = lock.write(ttl: long).downgrade.dump
            expect(store.adopt(dump) { |lease| [lease.mode, modes] }).to eq([:read, [:read]])
            expect(store.adopt(lock.write(ttl: long).dump) { |lease| lease.downgrade.mode }).to be(
              :read
            )
            expect_free(lock)
          end
        end

        it "is for leases that write" do
          lock.read { |lease| expect_refusal(/reads/) { lease.downgrade } }
          lock.write { |lease| lease.downgrade && expect_refusal(/reads/) { lease.downgrade } }
          others = [store.acquire("#{key}:1")]
          unless unable.include?(:semaphores)
            others << store.semaphore("#{key}:2", permits: 1).acquire
          end
          others.each do |lease|
            expect_refusal(/not of a read-write lock/) { lease.downgrade }
            lease.release
          end
        end

        it "raises LeaseLost where it is not ours any more, and leaves the next one's alone" do
          lease = lock.write(ttl: long)
          lock.break
          _other, leave = inside(:write)
          expect { lease.downgrade }.to raise_error(Plock::LeaseLost) { |error|
            expect(error.lease).to be(lease)
          }
          expect([lease.lost?, modes]).to eq([true, [:write]])
          leave.call
          expect { kept(lock.write).tap(&:release).downgrade }.to raise_error(
            Plock::LeaseLost, /released/
          )
        end

        it "leaves nothing behind where it is interrupted, at whatever step" do
          interrupted_everywhere(
            -> { lock.write(ttl: long) { |lease| lease.downgrade && lock.read { nil } } }
          ) { expect_nobody(lock) }
        end
      end
    end

    it "lets fibers of one thread read together, and one write alone", :fibers do
      said = Sync do |task|
        reading = 0
        fibers = Array.new(3) do
          task.async do
            lock.read(ttl: long, wait: long) do
              (reading += 1) && eventually { reading == 3 } && lock.read { reading }
            end
          end
        end
        eventually { reading == 3 }
        writer = task.async { lock.write(ttl: long, wait: long) { modes } }
        [*fibers, writer].map(&:wait)
      end
      expect(said).to eq([3, 3, 3, [:write]])
      expect_nobody(lock)
    end
  end
end
