# frozen_string_literal: true

require "spec_helper"
require "support/store_contract"

RSpec.describe Plock::BriefMutex do
  include Support::StoreContract

  # Two threads wait for the mutex. The first one gets its turn, but is interrupted before it
  # runs.
  #
  # @return [Boolean] does the second thread get the mutex?
  def handed_on?(mutex, &wait)
    interrupt = Class.new(StandardError)
    mutex.lock
    waiters = Array.new(2) do
      waiter = Thread.new do
        wait.call
      rescue interrupt
        nil
      end
      eventually { waiter.stop? }
      waiter
    end
    mutex.unlock
    waiters.first.raise(interrupt) # no other thread has run since the unlock
    waiters.first.join
    !waiters.last.join(5).nil?
  ensure
    waiters&.each(&:kill)
  end

  it "goes to the next waiter if the one that it called is interrupted" do
    mutex = described_class.new
    expect(handed_on?(mutex) { mutex.synchronize { nil } }).to be(true)
    expect(handed_on?(mutex) { mutex.lock && mutex.unlock }).to be(true)
    expect(handed_on?(mutex) { mutex.hold { nil } }).to be(true)
  end

  it "goes to the next waiting fiber if the one that it called is stopped", :fibers do
    %i[hold synchronize].each do |method|
      mutex = described_class.new
      entered = []
      Sync do |task|
        mutex.lock
        first, second = %i[first second].map do |name|
          task.async { mutex.public_send(method) { entered << name } }
        end
        mutex.unlock
        first.stop # it has not run since the unlock
        task.with_timeout(5) { second.wait }
      end
      expect(entered).to eq([:second])
    end
  end

  it "lets work that may take long be interrupted, and is free then" do
    mutex = described_class.new
    worker = Thread.new { mutex.hold { sleep } }
    worker.report_on_exception = false
    eventually { mutex.locked? && worker.stop? }
    worker.raise(IOError)
    expect { worker.join(5) }.to raise_error(IOError)
    expect(mutex).not_to be_locked
  end

  it "is free if a signal handler raises, at whatever step" do
    mutex = described_class.new
    steps = (1..50).find do |step|
      cut_off = interrupted_at(step, by_signal: true) { mutex.hold { nil } }
      expect(mutex).not_to be_locked
      !cut_off
    end
    expect(steps).to be > 3
  end

  it "is not unlocked by one who could not lock it" do
    mutex = described_class.new
    mutex.hold do
      expect { mutex.hold { nil } }.to raise_error(ThreadError)
      expect(mutex).to be_owned
    end
  end

  it "is the mutex of the dispatcher's start, which no later call may unlock" do
    program = <<~RUBY
      require "plock"
      mutex = Plock::Dispatcher.instance_variable_get(:@lock)
      mutex.lock
      waiters = Array.new(2) do
        waiter = Thread.new { Thread.current.report_on_exception = false; Plock::Dispatcher.start }
        Thread.pass until waiter.stop?
        waiter
      end
      mutex.unlock
      waiters.first.raise("interrupted")
      waiters.first.join rescue nil
      puts waiters.last.join(5) ? "started" : "asleep"
    RUBY
    expect(ruby(program)).to match(["started\n", be_success])
  end
end
