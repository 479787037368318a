# frozen_string_literal: true

require "spec_helper"
require "tmpdir"

# Tests blocks whose whole lock, from the arguments to the release, is handled in C. The store
# contract also runs on such stores.
RSpec.describe Plock::Locking::Direct do
  let(:key) { "direct:#{SecureRandom.hex(8)}" }

  {
    "on Redis" => ->(_) { shared_redis.unix_url },
    "in a local store" => ->(folder) { "local:#{folder}/locks" }
  }.each do |name, address|
    describe name do
      let(:folder) do
        Dir.mktmpdir("plock-direct-").tap do |path|
          discard(-> { FileUtils.remove_entry(path) }, :call)
        end
      end
      let(:store) { open_used }

      def open_used(**options)
        used(open_store(address_in(folder), **options))
      end

      define_method(:address_in) { |folder| instance_exec(folder, &address) }

      # From now on, calls that leave the short way through C raise an error.
      def forbid_ruby
        local = store.is_a?(Plock::LocalStore)
        (local ? %i[take_for take_all_for] : %i[take take_all]).each do |taking|
          allow(store).to receive(taking).and_raise("not through C")
        end
      end

      # How many objects a hundred calls of the block create, after five calls that are not counted.
      def objects_of_hundred(&block)
        5.times(&block)
        GC.disable
        before = GC.stat(:total_allocated_objects)
        100.times(&block)
        GC.stat(:total_allocated_objects) - before
      ensure
        GC.enable
      end

      def keys = Array.new(3) { |number| "#{key}#{number}" }

      def held = keys.map { |each| store.status(each).held? }

      it "is how a call without options goes" do
        forbid_ruby
        expect(store.acquire(key) { |lease| lease.key.equal?(key) || lease.key }).to eq(key)
        expect(store.acquire(key, ttl: 2, wait: 1) { |lease| lease.ttl }).to be(2.0)
        expect(store.try_acquire(key.to_sym, &:key)).to be(key.to_sym)
        expect(store.semaphore(key, permits: 2).acquire(&:valid?)).to be(true)
        expect(store.read_write_lock(key).write(&:mode)).to be(:write)
        expect(Plock::Monitor.new(key, store: store).synchronize { :inside }).to be(:inside)
        expect(store.acquire_all(keys) { |leases| leases.map(&:key) }).to eq(keys)
        expect(store.acquire_all(keys, ttl: 2, wait: 1) { |lease, _| lease.ttl }).to be(2.0)
        expect(store.try_acquire_all(keys) { held }).to eq([true, true, true])
        expect(held).to eq([false, false, false])
      end

      it "has several keys in the order in which they were named, each once" do
        forbid_ruby
        named = [*keys.reverse, keys.first.to_sym, *keys]
        leases = store.acquire_all(named) { |*leases| leases.first }
        expect(leases.map(&:key)).to eq(keys.reverse)
      end

      it "has 64 keys, and refuses more" do
        forbid_ruby
        many = Array.new(65) { |number| "#{key}#{number}" }
        expect(store.acquire_all(many.first(64) * 2) { |leases| leases.count(&:valid?) }).to be(64)
        expect { store.acquire_all(many) { nil } }.to raise_error(ArgumentError, /1 to 64/)
        expect { store.acquire_all([]) { nil } }.to raise_error(ArgumentError, /1 to 64/)
        expect { store.acquire_all([key, 1]) { nil } }.to raise_error(ArgumentError)
      end

      it "makes four objects for each of several keys at most" do
        keys = self.keys.each(&:freeze)
        expect(objects_of_hundred { store.acquire_all(keys) { nil } }).to be <= 1202
      end

      it "goes on in Ruby if others have one of several keys" do
        other = store.acquire(keys[1])
        expect(store.try_acquire_all(keys) { :entered }).to be_nil
        expect { store.acquire_all(keys, wait: 0.01) { :entered } }.to raise_error(
          Plock::TimeoutError, /"#{keys[1]}", one of 3 keys, within 0.01 s: held since/
        )
        expect(held).to eq([false, true, false])
        thread = Thread.new { store.acquire_all(keys, wait: 10) { |leases| leases.map(&:valid?) } }
        eventually { store.status(keys[1]).waiters.any? }
        other.release
        expect(thread.value).to eq([true, true, true])
        expect(held).to eq([false, false, false])
      end

      it "refuses to wait for itself for one of several keys" do
        forbid_ruby
        store.acquire_all(keys) do
          expect { store.acquire(keys.last, wait: 1) { nil } }
            .to raise_error(Plock::UnsupportedError)
          expect { store.acquire_all([key, keys.first], wait: 1) { nil } }
            .to raise_error(Plock::UnsupportedError, /one of 2 keys/)
          expect(store.try_acquire(keys.last) { :entered }).to be_nil
        end
        expect(store.acquire_all(keys, wait: 1) { :entered }).to be(:entered)
      end

      it "releases those of several keys that it still has" do
        logger = double("logger", warn: nil)
        used = open_used(logger: logger)
        used.acquire_all(keys) do |first, _second, _third|
          first.release
          store.break(keys[1])
        end
        expect(held).to eq([false, false, false])
        expect(logger).to have_received(:warn).once.with(/"#{keys[1]}".* is lost before its block/)
        expect { used.acquire_all(keys) { raise KeyError } }.to raise_error(KeyError)
        expect(held).to eq([false, false, false])
      end

      it "tells of the release of each of several keys if its block subscribes" do
        told = []
        store.acquire_all(keys) do
          subscription = Plock.subscribe(:release) { |event| told << [event.name, event.details] }
          discard(-> { Plock.unsubscribe(subscription) }, :call)
        end
        expect(told).to eq([[:release, { released: true }]] * 3)
      end

      it "makes three objects at most" do
        key = self.key.freeze
        expect(objects_of_hundred { store.acquire(key) { nil } }).to be <= 302
      end

      it "tells of its release if its block subscribes" do
        told = []
        store.acquire(key) do
          subscription = Plock.subscribe(:release) { |event| told << event.name }
          discard(-> { Plock.unsubscribe(subscription) }, :call)
        end
        expect(told).to eq(%i[release])
      end

      it "warns of a lease that was lost, and does not free the next one" do
        logger = double("logger", warn: nil)
        open_used(logger: logger).acquire(key) do
          store.break(key)
          store.acquire(key) { |lease| expect(lease).to be_valid }
        end
        expect(logger).to have_received(:warn).with(/is lost before its block ended/)
      end

      it "goes on after a synchronize that has entered more often than it has left" do
        monitor = Plock::Monitor.new(key, store: store)
        monitor.synchronize { monitor.enter }
        expect([monitor.mon_owned?, store.status(key).held?]).to eq([true, true])
        expect { store.acquire(key, wait: 1) { nil } }.to raise_error(Plock::UnsupportedError)
        monitor.exit
        expect([monitor.mon_owned?, store.status(key).held?]).to eq([false, false])
      end

      it "ends with the block that an inner exit has left" do
        monitor = Plock::Monitor.new(key, store: store)
        expect { monitor.synchronize { monitor.exit } }.to raise_error(ThreadError)
        expect([monitor.mon_owned?, store.status(key).held?]).to eq([false, false])
      end

      it "is the way of a store that was frozen after its first use" do
        store.freeze
        expect(store.acquire(key) { :entered }).to be(:entered)
      end

      it "copies a key as dup does" do
        kind = Class.new(String) { attr_accessor :note }
        key = kind.new(self.key)
        key.note = "kept"
        copy = store.acquire(key, &:key)
        expect([copy, copy.class, copy.note, copy.frozen?]).to eq([key, kind, "kept", true])
      end

      it "runs a block once, whatever it returns" do
        runs = 0
        store.acquire(key) do
          runs += 1
          Plock::Locking::PlainCalls::UNDONE
        end
        expect(runs).to be(1)
      end

      it "knows what a monitor holds whose default store was replaced inside" do
        other = open_used
        Plock.replace_store(store)
        monitor = Plock::Monitor.new(key)
        monitor.synchronize do
          monitor.enter
          Plock.replace_store(other)
        end
        expect { store.acquire(key, wait: 1) { nil } }.to raise_error(Plock::UnsupportedError)
        monitor.exit
      ensure
        Plock.replace_store(nil)
      end

      it "forgets its lease before it is interrupted, even if a monitor was left entered" do
        random = Random.new(1)
        300.times do |number|
          monitor = Plock::Monitor.new("#{key}#{number}", store: store)
          thread = Thread.new do
            loop do
              store.acquire(key, wait: 5) { monitor.try_enter && Thread.pass }
              monitor.exit
            end
          rescue Interrupt
            monitor.exit while monitor.mon_owned?
            Plock::Locking::OwnHolds.here.size
          end
          thread.report_on_exception = false
          sleep(random.rand * 0.002)
          thread.raise(Interrupt)
          expect(thread.value.to_i).to be(0)
        rescue Interrupt
          nil # the interrupt came before the block's first line
        end
      end

      it "leaves none of several keys behind, at whatever moment it is interrupted" do
        random = Random.new(1)
        400.times do
          began = Queue.new
          thread = Thread.new do
            began << true
            loop { store.acquire_all(keys, wait: 5) { Thread.pass } }
          rescue Interrupt
            Plock::Locking::OwnHolds.here.size
          end
          thread.report_on_exception = false
          began.pop
          sleep(random.rand * 0.002)
          thread.raise(Interrupt)
          expect(thread.value).to be(0)
        end
        expect(store.acquire_all(keys, wait: 1) { :free }).to be(:free)
      end

      it "leaves nothing behind, at whatever moment it is interrupted" do
        monitor = Plock::Monitor.new("monitor of #{key}", store: store)
        random = Random.new(1)
        400.times do
          began = Queue.new
          thread = Thread.new do
            began << true
            loop { store.acquire(key, wait: 5) { monitor.synchronize { Thread.pass } } }
          rescue Interrupt
            [Plock::Locking::OwnHolds.here.size, (Thread.current[:plock_monitors] || {}).size]
          end
          thread.report_on_exception = false
          began.pop
          sleep(random.rand * 0.002)
          thread.raise(Interrupt)
          expect(thread.value).to eq([0, 0])
        end
        expect(store.try_acquire(key) { :free }).to be(:free)
      end
    end
  end
end
