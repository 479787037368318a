# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/in_ruby"

RSpec.describe Plock::Store::Scheduler do
  let(:ran) { Queue.new }

  # A task that notes its name when it runs, and then runs the block.
  def task(name, &more)
    queue = ran
    Object.new.tap do |made|
      made.define_singleton_method(:together?) { false }
      made.define_singleton_method(:expire) { false }
      made.define_singleton_method(:run) { (queue << name) && more&.call }
    end
  end

  def now = Plock::Clock.now

  it "runs tasks in the order of their moments" do
    times = (1..50).to_a.shuffle(random: Random.new(7))
    base = now + 1 # all tasks are scheduled before they are due
    times.each { |n| subject.schedule(task(n), base + (n * 0.001)) }
    expect(Array.new(50) { ran.pop }).to eq((1..50).to_a)
  end

  it "runs a task at the moment it was last scheduled for, and never once it is cancelled" do
    moved, gone = task(:moved), task(:gone)
    subject.schedule(moved, now + 60)
    base = now + 1
    subject.schedule(gone, base)
    subject.cancel(gone)
    subject.schedule(moved, base + 0.01)
    subject.schedule(task(:last), base + 0.02)
    expect(Array.new(2) { ran.pop }).to eq(%i[moved last])
  end

  it "goes on though a task fails, and does not repeat that one" do
    calls = 0
    said = warnings do
      subject.schedule(task(:first) { (calls += 1) && raise(NotImplementedError, "no") }, now)
      subject.schedule(task(:second), now + 0.05)
      2.times { ran.pop }
    end
    expect([calls, said]).to match([1, [include("NotImplementedError: no")]])
  end

  it "does not spin on a task that names a moment that is over" do
    calls = 0
    queue = ran # read here, because the last call may come after the example has ended
    subject.call_later { Plock::Clock.now - 1 if (calls += 1) && queue.empty? }
    took = elapsed do
      sleep(0.1)
      queue << :enough
    end
    expect(calls).to be_between(1, (took / described_class::PAUSE_S) + 10)
  end

  it "gives tasks that are due together to one call" do
    together = Queue.new
    scheduler = described_class.new(->(tasks) { together << tasks.size })
    one = Class.new do
      def together? = true
      def expire = false
      def valid_until = Float::INFINITY
    end
    base = now + 1
    100.times { scheduler.schedule(one.new, base) }
    expect(together.pop).to eq(100)
  end

  describe "while the store is silent" do
    let(:gate) { Queue.new }
    let(:scheduler) { described_class.new(->(_) { gate.pop }) }

    after { 2.times { gate << true } }

    # A lease that notes its end when its time is over.
    def lease(valid_until)
      queue = ran
      Object.new.tap do |made|
        made.define_singleton_method(:together?) { true }
        made.define_singleton_method(:valid_until) { valid_until }
        made.define_singleton_method(:expire) do
          Plock::Clock.now >= valid_until && !!(queue << :over)
        end
      end
    end

    it "ends a lease in time whose renewal has not been answered" do
      scheduler.schedule(lease(now + 0.1), now)
      expect(ran.pop).to be(:over)
    end

    it "ends one in time that has waited behind another renewal, and one that only has to end" do
      scheduler.schedule(lease(now + 3_600), now)
      eventually { gate.num_waiting == 1 }
      scheduler.schedule(lease(now + 0.1), now)
      ends_only = now + 0.05
      scheduler.schedule(lease(ends_only), ends_only)
      expect(Array.new(2) { ran.pop }).to eq(%i[over over])
    end

    it "sleeps until the lease whose renewal has been answered would have ended" do
      scheduler.schedule(lease(now + 60), now)
      gate << true
      sleep(1.1) # longer than the thread stays alive without work
      used = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      sleep(0.2)
      expect(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - used).to be < 0.05
    end

    it "ends one in time, and renews another, while a background call waits" do
      silence = gate
      scheduler.call_later { silence.pop && nil }
      eventually { gate.num_waiting == 1 }
      scheduler.schedule(lease(now + 0.1), now)
      eventually { gate.num_waiting == 2 }
      expect(ran.pop).to be(:over)
    end
  end

  it "has no threads a moment after its last task, however long that lease would have lasted" do
    scheduler = described_class.new(->(_) { ran << :renewed })
    lease =
      Class.new do
        def together? = true
        def expire = false
        def valid_until = Plock::Clock.now + 3_600
      end
    scheduler.schedule(lease.new, now)
    expect(ran.pop).to be(:renewed)
    worker = scheduler.instance_variable_get(:@renewing)
    eventually(10) do
      [scheduler, worker].none? { |one| one.instance_variable_get(:@thread)&.alive? }
    end
  end

  it "is not woken by each task that is cancelled before its moment" do
    subject.schedule(task(:later), now + 60)
    thread = await_sleep(subject.instance_variable_get(:@thread))
    echo = discard(IO.popen("cat", "r+"), :close) # while it answers, the scheduler's thread can run
    count = sleeps_of(thread) do
      20.times do
        subject.schedule(one = task(:one), now + 30)
        subject.cancel(one)
        echo.puts("released?")
        echo.gets
      end
    end
    expect(count).to be <= 2
  end

  # Counts how many times the thread goes to sleep while the block runs.
  def sleeps_of(thread, &block)
    count = 0
    tracing = TracePoint.new(:c_call, :call) do |point|
      count += 1 if point.method_id == :wait && Thread.current.equal?(thread)
    end
    tracing.enable(&block)
    count
  end

  it "holds no more entries than tasks several times, however often they are scheduled" do
    one = task(:one)
    10_000.times { |n| subject.schedule(one, now + 60 + n) }
    expect(subject.instance_variable_get(:@schedule).size).to be <= 70
    subject.cancel(one)
  end

  it "starts afresh in a child of a fork" do
    due_at = now + 1
    subject.schedule(task(:parent), due_at)
    status = in_child do
      subject.schedule(task(:child), now)
      [ran.pop, (sleep([due_at + 0.2 - now, 0.2].max) && ran.empty?)]
    end
    expect(status).to eq([:child, true])
  end
end
