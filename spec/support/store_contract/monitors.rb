# frozen_string_literal: true

RSpec.shared_examples "a store for monitors" do
  long = Support::StoreContract::LONG

  describe Plock::Monitor do
    let(:monitor) { monitor_of }

    def monitor_of(**options)
      described_class.new(
        key, store: store, ttl: Support::StoreContract::LONG, wait: Support::StoreContract::LONG,
        **options
      )
    end

    def in_thread(&block) = background(&block).value

    it "returns the block's value, and is free after it" do
      expect(monitor.synchronize { [free?, monitor.mon_locked?, monitor.mon_owned?] }).to eq(
        [false, true, true]
      )
      expect([free?, monitor.mon_locked?, monitor.mon_owned?]).to eq([true, false, false])
    end

    it "is left whichever way the block is left" do
      expect { monitor.synchronize { raise IOError, "the block's own" } }.to raise_error(IOError)
      catch(:out) { monitor.synchronize { throw :out } }
      monitor.synchronize { break }
      expect_free
      expect(monitor).not_to be_mon_owned
    end

    it "lets its owner in again, without a look at the store" do
      monitor.synchronize do
        expect(store).not_to receive(:fill)
        expect(monitor.synchronize { monitor.synchronize { monitor.mon_owned? } }).to be(true)
        monitor.enter
        expect([monitor.try_enter, monitor.mon_locked?]).to eq([true, true])
        2.times { monitor.exit }
        expect(free?).to be(false)
      end
      expect_free
    end

    it "is left when it was left as often as it was entered" do
      expect(Array.new(3) { monitor.enter }).to eq([nil] * 3)
      expect(Array.new(3) { [monitor.exit, free?] }).to eq(
        [[nil, false], [nil, false], [nil, true]]
      )
    end

    it "excludes other threads, other monitors of the key, and callers that acquire the key" do
      monitor.synchronize do
        expect(in_thread { [monitor.try_enter, monitor.mon_owned?, monitor.mon_locked?] }).to eq(
          [false, false, true]
        )
        expect([monitor_of.try_enter, store.try_acquire(key)]).to eq([false, nil])
        expect { in_thread { monitor_of(wait: 0.02).enter } }.to raise_error(
          Plock::TimeoutError, /"#{key}" within 0.02 s: held since/
        )
        expect_no_waiters
      end
      expect(in_thread { monitor.try_enter && monitor.exit.nil? }).to be(true)
    end

    it "lets in who waits, in order" do
      monitor.enter
      served = Queue.new
      threads =
        Array.new(3) do |number|
          wait_in_line(number + 1) do
            monitor.synchronize { monitor.synchronize { served << number } }
          end
        end
      monitor.exit
      threads.each(&:join)
      expect(Array.new(3) { served.pop }).to eq([0, 1, 2])
    end

    it "belongs to the fiber, not to its thread", :fibers do
      monitor.synchronize do
        said = Fiber.new do
          raised = begin
            monitor.exit
          rescue ThreadError => e
            e.message
          end
          [monitor.mon_owned?, monitor.try_enter, raised]
        end.resume
        expect(said).to eq([false, false, "current fiber not owner"])
        expect(monitor).to be_mon_owned
      end
    end

    it "lets fibers of one thread in one after the other", :fibers do
      inside = most = 0
      Sync do |task|
        fibers = Array.new(4) do
          task.async do
            monitor.synchronize do
              monitor.synchronize { most = [most, inside += 1].max }
              sleep 0.002
              inside -= 1
            end
          end
        end
        fibers.each(&:wait)
      end
      expect(most).to be(1)
      expect_free
    end

    it "raises a ThreadError where one leaves who is not inside, as Ruby's does" do
      expect { monitor.exit }.to raise_error(ThreadError)
      expect { monitor.synchronize { monitor.exit } }.to raise_error(ThreadError)
      expect { monitor.synchronize { in_thread { monitor.exit } } }.to raise_error(ThreadError)
      expect_free
    end

    it "is not a forked child's, whose way out of the block leaves the parent's alone" do
      reader, writer = IO.pipe
      parent = Process.pid
      monitor.synchronize do
        if (pid = Process.fork)
          Process.wait(pid)
          expect(Marshal.load(reader)).to eq([false, false, ThreadError, true])
          expect([monitor.mon_owned?, store.try_acquire(key)]).to eq([true, nil])
        else
          owned = [monitor.mon_owned?, monitor.try_enter]
          begin
            monitor.exit
          rescue ThreadError => e
            owned << e.class
          end
        end
        owned
      end.then do |owned|
        next if Process.pid == parent

        writer.write(Marshal.dump([*owned, monitor.mon_locked?])) # the child has left the block
        exit!(0)
      end
      expect_free
    ensure
      exit!(1) if Process.pid != parent
      [reader, writer].each(&:close)
    end

    it "works in a forked child" do
      monitor.synchronize { nil }
      expect(
        in_child do
          monitor.synchronize do
            monitor.synchronize { [monitor.mon_owned?, store.status(key).pid == Process.pid] }
          end
        end
      ).to eq([true, true])
    end

    it "is renewed, unless it is told not to be" do
      monitor_of(ttl: renewed).synchronize do
        outlive(Plock::Clock.now + renewed)
        expect(free?).to be(false)
      end
      warnings { monitor_of(ttl: short, renew: false).synchronize { eventually { free? } } }
    end

    it "reports its loss to its owner at the next enter, and warns at the exit" do
      heard = warnings do
        monitor.synchronize do
          store.break(key)
          eventually { store.status(key).then { |status| !status.held? } }
          expect { eventually { monitor.synchronize { nil } && false } }.to raise_error(
            Plock::LeaseLost
          )
          expect { monitor.try_enter }.to raise_error(Plock::LeaseLost)
          expect(monitor).to be_mon_owned
        end
      end
      expect(heard).to match([/"#{key}" .* is lost before its block ended/])
      expect(monitor.synchronize { monitor.synchronize { :again } }).to be(:again)
    end

    it "calls on_lost: instead" do
      told = Queue.new
      monitor_of(on_lost: ->(lease) { told << lease.key }).synchronize do
        store.break(key)
        expect(told.pop).to eq(key)
      end
    end

    it "takes the other options that a lock has" do
      monitor_of(label: "why", at_least: 20).synchronize do
        expect(store.status(key).label).to eq("why")
      end
      expect(store.status(key).remaining).to be_between(15, 20.1)
      store.break(key)
    end

    it "is released by the garbage collector where its fiber ended inside" do
      heard = warnings do
        Thread.new { monitor.enter }.join
        eventually(10) { GC.start || free? }
        Plock::Dispatcher.flush
      end
      expect(heard).to match([/collected/])
    end

    describe "interrupted" do
      { "by a thread" => false, "by a signal handler" => true }.each do |way, by_signal|
        it "#{way}, leaves nothing behind, at whatever step" do
          block = -> { monitor.synchronize { monitor.synchronize { nil } } }
          interrupted_everywhere(block, by_signal: by_signal) do
            expect(monitor).not_to be_mon_owned
            expect_nobody
          end
        end

        it "#{way} on its way in again, does not leave too often or too seldom" do
          inner = -> { monitor.synchronize { monitor.synchronize { monitor.synchronize { nil } } } }
          monitor.synchronize do
            interrupted_everywhere(inner, by_signal: by_signal) do
              expect([monitor.mon_owned?, free?]).to eq([true, false])
            end
          end
          expect([monitor.mon_owned?, free?]).to eq([false, true])
        end
      end

      it "while it waits, leaves the line" do
        lease = hold(ttl: long)
        waiter = wait_in_line(1) { monitor.synchronize { raise "entered" } }
        waiter.raise(IOError, "out")
        expect { waiter.join(5) }.to raise_error(IOError)
        await_waiters(0)
        lease.release
        expect_free
      end
    end

    it "answers to the names of Ruby's" do
      monitor.mon_synchronize do
        expect([monitor.mon_try_enter, monitor.try_mon_enter, monitor.mon_enter]).to eq(
          [true, true, nil]
        )
        3.times { monitor.mon_exit }
      end
      expect_free
    end

    it "has no conditions" do
      expect { monitor.new_cond }.to raise_error(Plock::UnsupportedError)
      expect { monitor.wait_for_cond(Object.new, 5) }.to raise_error(Plock::UnsupportedError)
    end

    it "raises an ArgumentError for what cannot be right, when it is made" do
      [
        { ttl: 0 }, { wait: -1 }, { renew: 1 }, { on_lost: :raise }, { label: "" }, { patience: 5 }
      ].each do |options|
        expect { described_class.new(key, store: store, **options) }.to raise_error(
          ArgumentError, /#{options.keys.first}/
        )
      end
      [nil, "", 7, "k" * 1025].each do |wrong|
        expect { described_class.new(wrong) }.to raise_error(ArgumentError, /key/)
      end
    end

    it "shows its key" do
      expect([monitor.key, monitor.inspect]).to match([key, /#{key}/])
    end
  end
end
