# frozen_string_literal: true

# Semaphores and read-write locks: name => [the kind, the mode of a lease (nil: it has no mode),
# a lambda that makes such a lock, the method that acquires it].
SHARED_KINDS = {
  "a semaphore" => [:semaphore, nil, ->(store, key) { store.semaphore(key, permits: 2) }, :acquire],
  "a lock that is read" => [
    :read_write, :read, ->(store, key) { store.read_write_lock(key) }, :read
  ],
  "a lock that is written" => [
    :read_write, :write, ->(store, key) { store.read_write_lock(key) }, :write
  ]
}.freeze

RSpec.shared_examples "a store of shared locks" do |unable = []|
  long = Support::StoreContract::LONG
  news = Support::StoreContract::LATE_NEWS

  SHARED_KINDS.each do |name, (kind, mode, make, method)|
    next if unable.include?(:"#{kind}#{"_lock" if mode}s")

    describe name do
      let(:lock) { make.call(store, key) }

      define_method(:take) { |**options, &block| lock.public_send(method, **options, &block) }

      it "returns the block's value, and is free after it" do
        expect(take { free?(lock) }).to be(false)
        expect_free(lock)
      end

      it "is released whichever way the block is left" do
        expect { take { raise IOError, "the block's own" } }.to raise_error(IOError)
        catch(:out) { take { throw :out } }
        take { break }
        [1].each { take { next } }
        expect_free(lock)
      end

      it "gives a lease of its own, with a fence that grows" do
        fences =
          Array.new(3) do
            take(ttl: 10, label: "why") do |lease|
              lease.fence if lease.valid? && lease.mode == mode
            end
          end
        expect(fences).to all(be_an(Integer))
        expect(fences).to eq(fences.sort.uniq)
      end

      it "tells who holds it" do
        take(ttl: 60, label: "why") do |lease|
          expect(lock.status).to have_attributes(
            held?: true, key: key, kind: kind, host: Etc.uname[:nodename], pid: Process.pid,
            thread: an_instance_of(Integer), label: "why", since: be_within(10).of(Time.now),
            remaining: be_between(50, 60), fence: lease.fence, waiters: []
          )
          expect(lock.status.holders).to match(
            [have_attributes(label: "why", pid: Process.pid, fence: lease.fence, mode: mode)]
          )
          expect([lock.status.inspect.include?(lease.token), lock.inspect.include?(key)]).to eq(
            [false, true]
          )
        end
        expect(lock.status).to have_attributes(
          held?: false, holders: [], host: nil, fence: nil, kind: kind
        )
      end

      unless unable.include?(:list)
        it "is found by each_lock, and can be broken by what that yields" do
          lease = kept(take(ttl: long))
          found = store.each_lock.find { |status| status.store_key == lease.store_key }
          expect(found).to have_attributes(kind: kind, key: nil, fence: lease.fence)
          expect(store.break(found)).to be(true)
          expect(store.each_lock.map(&:store_key)).not_to include(lease.store_key)
          expect([store.break(found), lock.break]).to eq([false, false])
        end
      end

      it "frees itself when the time is over" do
        lease = kept(take(ttl: short))
        eventually { free?(lock) }
        expect(lease).to be_lost
        expect(lease.release).to be(false)
      end

      it "can be extended, and renewed" do
        kept(take(ttl: 10)).then do |lease|
          lease.extend(ttl: 60)
          expect(lock.status.remaining).to be_between(50, 60)
          lease.release
        end
        take(ttl: renewed, renew: true) do |lease|
          outlive(lease.valid_until)
          expect([lease.valid?, free?(lock)]).to eq([true, false])
        end
        expect_free(lock)
      end

      it "stays taken by at_least:" do
        take(at_least: 20) { nil }
        expect(lock.status).to have_attributes(held?: true, remaining: be_between(15, 20.1))
        lock.break
        expect_free(lock)
      end

      unless unable.include?(:hand_over)
        it "is prolonged by no adoption that comes after its release" do
          dump = take(ttl: long, at_least: 20).dump
          store.adopt(dump).release
          expect { store.adopt(dump, ttl: 60) }.to raise_error(Plock::LeaseLost)
          expect(lock.status).to have_attributes(held?: true, remaining: be_between(15, 20.1))
          lock.break
          expect_free(lock)
        end
      end

      { "renew:" => { renew: true }, "on_lost:" => { on_lost: ->(_) {} } }.each do |way, options|
        it "tells a holder with #{way} when it is broken" do
          lease = kept(take(ttl: long, **options))
          expect(lock.break).to be(true)
          eventually(news) { lease.lost? }
          expect { lease.check! }.to raise_error(Plock::LeaseLost)
        end
      end

      it "warns at the end of the block where it was broken" do
        heard = warnings { expect(take { lock.break && :value }).to be(:value) }
        expect(heard).to match([/"#{key}" .* is lost before its block ended/])
      end

      it "raises in the block with on_lost: :raise" do
        expect { take(ttl: long, on_lost: :raise) { lock.break && sleep(long) } }.to raise_error(
          Plock::LeaseLost
        )
        expect_free(lock)
      end

      it "calls on_lost: when the time is over" do
        told = Queue.new
        lease = kept(take(ttl: short, on_lost: ->(lost) { told << lost }))
        expect(eventually(short + news) { !told.empty? && told.pop }).to be(lease)
      end

      it "tells of events" do
        fence = nil
        events = events_of { take(ttl: 7, label: "why") { |lease| fence = lease.fence } }
        details =
          [{ ttl: 7.0 }, { released: true }].map { |told| mode ? told.merge(mode: mode) : told }
        expect(events.map { |event| [event.name, event.fence, event.label, event.details] })
          .to eq([[:acquire, fence, "why", details[0]], [:release, fence, "why", details[1]]])
      end

      it "is not a forked child's" do
        take(ttl: long) do |lease|
          expect(in_child { [lease.valid?, lease.lost?, lease.release] }).to eq(
            [false, false, false]
          )
          expect([lease.valid?, free?(lock)]).to eq([true, false])
        end
        expect_free(lock)
      end

      it "is released when it is collected, and that is warned of" do
        heard = warnings do
          Thread.new { take(ttl: long) && nil }.join
          eventually(10) { GC.start || free?(lock) }
          Plock::Dispatcher.flush
        end
        expect(heard).to match([/collected/])
      end

      it "leaves nothing behind where it is interrupted, at whatever step" do
        interrupted_everywhere(-> { take(ttl: long, wait: long) { nil } }) { expect_nobody(lock) }
      end

      it "takes a Symbol for the String of the same name" do
        lock.public_send(method) { expect(free?(make.call(store, key.to_sym))).to be(false) }
      end

      it "raises an ArgumentError for what cannot be right" do
        [
          { ttl: 0 }, { wait: -1 }, { renew: 1 }, { max_hold: 5, renew: false }, { at_least: nil },
          { on_lost: 5 }, { label: "" }, { patience: 5 }
        ].each do |options|
          expect { take(**options) { raise "entered" } }.to raise_error(
            ArgumentError, /#{options.keys.first}/
          )
        end
        [nil, "", 7, "k" * 1025].each do |key|
          expect { make.call(store, key) }.to raise_error(ArgumentError, /key/)
        end
      end

      next if unable.include?(:hand_over)

      it "can be handed over, once: with another token and a greater fence" do
        lease = take(ttl: long)
        token, fence = lease.token, lease.fence
        dump = lease.dump
        adopted = store.adopt(dump)
        expect(adopted).to have_attributes(mode: mode, fence: be > fence)
        expect(adopted.token).not_to eq(token)
        expect(lock.status.holders.map(&:fence)).to eq([adopted.fence])
        expect(lease).not_to be_valid
        expect { store.adopt(dump) { raise "entered" } }.to raise_error(Plock::LeaseLost)
        expect(adopted.extend(ttl: 60)).to be_valid
        expect(adopted.release).to be(true)
        expect_free(lock)
      end

      it "is the receiver's once adopted, and reports a break to it at once" do
        adopted = store.adopt(take(ttl: long, label: "who").dump, renew: true)
        expect(lock.status.holders).to match(
          [have_attributes(pid: Process.pid, label: "who", fence: adopted.fence)]
        )
        expect(lock.break).to be(true)
        eventually(news) { adopted.lost? }
      end

      it "cannot be adopted when it was broken" do
        dump = take(ttl: long).dump
        lock.break
        expect { store.adopt(dump) { raise "entered" } }.to raise_error(Plock::LeaseLost)
      end
    end
  end

  next if (unable & %i[semaphores read_write_locks list]).any?

  describe "locks of one key and several kinds" do
    it "do not meet" do
      ways = [
        ->(&block) { store.acquire(key, wait: 0, &block) },
        ->(&block) { store.semaphore(key, permits: 1).acquire(wait: 0, &block) },
        ->(&block) { store.read_write_lock(key).write(wait: 0, &block) },
        ->(&block) { store.once(key, within: long, &block).value }
      ]
      mine = -> do
        store.each_lock.select do |status|
          status.store_key.start_with?(store.status(key).store_key)
        end
      end
      kinds =
        ways
          .reduce(->(*) { mine.call.map(&:kind) }) { |inner, way| ->(*) { way.call(&inner) } }
          .call
      expect(kinds).to match_array(%i[lock semaphore read_write once])
      mine.call.each { |status| store.break(status) }
    end

    it "do not meet those of another key or namespace" do
      store.semaphore(key, permits: 1).acquire do
        expect(store.semaphore("#{key}'", permits: 1).try_acquire { :entered }).to be(:entered)
      end
    end
  end
end
