# frozen_string_literal: true

require "spec_helper"
require "support/ways_to_wait"

RSpec.describe "Interrupts while a call waits" do
  include_context "with a gate"

  # The promised time, if no other thread holds the GVL.
  let(:promptly) { 0.010 }

  # Seconds from the interrupt to the end of the thread.
  def time_to_end(way)
    thread = waiting(way)
    elapsed do
      yield thread
      thread.join
    rescue rescue_me
      nil
    end
  ensure
    calm
  end

  Support::WAYS_TO_WAIT.each do |name, way|
    context "while a hold waits #{name}" do
      it "Thread#kill ends it within 10 ms", :timing do
        at_most(promptly) { time_to_end(way, &:kill) }
      end

      it "Thread#raise ends it within 10 ms", :timing do
        at_most(promptly) { time_to_end(way) { |thread| thread.raise(rescue_me) } }
      end

      it "Timeout ends it within 10 ms", :timing do
        store
        at_most(0.05 + promptly, least: 0.05) do
          way.call(self)
          elapsed do
            Timeout.timeout(0.05, rescue_me) do
              store.hold(key, Support::Failures::TTL_MS, 30, nil) { raise "entered" }
            end
          rescue rescue_me
            nil
          end
        ensure
          calm
        end
      end

      it "a signal's handler runs within 10 ms, and the wait goes on", :timing do
        store
        begun = way.call(self)
        gate.forget
        url = gate.url("attempt_timeout=20&command_timeout=20&connect_timeout=20")
        waiter = child do |parent| # its main thread waits, and also runs signal handlers
          trap(:USR1) { parent.tell(monotonic) }
          open_store(url).hold(key, Support::Failures::TTL_MS, 30, nil) { :entered }
        end
        begun.call
        at_most(promptly) do
          sent = monotonic
          waiter.signal(:USR1)
          waiter.hear - sent
        end
        calm
        expect(waiter.result).to eq(:entered)
      end

      it "Thread#wakeup changes nothing" do
        thread = waiting(way)
        5.times { thread.wakeup && Thread.pass }
        await_sleep(thread)
      end

      it "an interrupt leaves nothing: no lock, no socket, and the next call works", :no_leaks do
        thread = waiting(way)
        thread.raise(rescue_me)
        expect { thread.value }.to raise_error(rescue_me)
        calm
        expect_no_orphan(key)
        expect_service(store)
      end
    end
  end

  describe "that are masked" do
    it "wait until the mask ends, and do not make the wait spin", :timing do
      shared_redis.call("SET", key, "somebody", "PX", 60_000)
      store
      used = nil
      thread = background do
        Thread.handle_interrupt(rescue_me => :never) do
          start = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
          hold_failure(store, key, wait: 0.5)
          used = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - start
        end
      end
      gate.await(:request, key)
      await_sleep(thread)
      thread.raise(rescue_me)
      expect { thread.join }.to raise_error(rescue_me)
      expect(used).to be < 0.1
    end

    it "still let the hold end and release" do
      thread = background do
        Thread.handle_interrupt(rescue_me => :never) do
          store.hold(key, Support::Failures::TTL_MS, 1.0, nil) do
            Thread.pass until Thread.pending_interrupt?
          end
          held?(key)
        end
      end
      eventually { held?(key) }
      thread.raise(rescue_me)
      expect { thread.value }.to raise_error(rescue_me)
      expect(held?(key)).to be(false)
    end
  end

  it "end a process that waits: SIGINT and SIGTERM are answered, and no lock stays" do
    %i[INT TERM].each do |signal|
      url = gate.url
      held, wanted = unique_key, unique_key
      shared_redis.call("SET", wanted, "somebody", "PX", 60_000)
      waiter = child do
        store = open_store(url)
        store.hold(held, Support::Failures::TTL_MS, 5.0, nil) do
          store.hold(wanted, 3_000, 30, nil) { nil }
        end
      rescue SignalException => e
        e.message
      end
      gate.await(:request, wanted)
      expect(held?(held)).to be(true)
      waiter.signal(signal)
      expect(waiter.result).to eq(signal == :INT ? "" : "SIGTERM")
      expect(held?(held)).to be(false)
    end
  end

  it "in a call that uses the only connection, a signal handler's own call fails in time" do
    store
    url = gate.url("pool_size=1&attempt_timeout=1&command_timeout=20&unavailable_timeout=20")
    caller_of_both = child do |parent|
      own = warm(open_store(url))
      trap(:USR1) do
        began = monotonic
        own.acquire("#{key}:other", wait: 0.2) { nil }
      rescue Plock::Error => e
        parent.tell([e.class, monotonic - began < 1 + Support::Patience::MARGIN])
      end
      gate.forget
      gate.hold(:reply)
      parent.tell(:asking)
      own.acquire(key, wait: 20) { :entered }
    end
    expect(caller_of_both.hear).to eq(:asking)
    gate.await(:reply)
    caller_of_both.signal(:USR1)
    expect(caller_of_both.hear).to eq([Plock::UnavailableError, true])
    gate.clear
    expect(caller_of_both.result).to eq(:entered)
  end
end
