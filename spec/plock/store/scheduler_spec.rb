# frozen_string_literal: true

require "spec_helper"
require "plock/store/in_ruby"

RSpec.describe Plock::Store::Scheduler do
  let(:ran) { Queue.new }

  # Notes its name when it runs, and does what else it is told to.
  def task(name, &more)
    queue = ran
    Object.new.tap do |made|
      made.define_singleton_method(:together?) { false }
      made.define_singleton_method(:run) { (queue << name) && more&.call }
    end
  end

  def now = Plock::Clock.now

  it "runs tasks in the order of their moments" do
    times = (1..50).to_a.shuffle(random: Random.new(7))
    base = now + 0.05
    times.each { |n| subject.schedule(task(n), base + (n * 0.001)) }
    expect(Array.new(50) { ran.pop }).to eq((1..50).to_a)
  end

  it "runs a task at the moment that it was scheduled for last, and not at all once it is cancelled" do
    moved, gone = task(:moved), task(:gone)
    subject.schedule(moved, now + 60)
    subject.schedule(gone, now + 0.01)
    subject.cancel(gone)
    subject.schedule(moved, now + 0.02)
    subject.schedule(task(:last), now + 0.05)
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
    subject.call_later { now - 1 if (calls += 1) && ran.empty? }
    sleep(0.1)
    ran << :enough
    expect(calls).to be_between(1, 110)
  end

  it "gives tasks that are due together to one call" do
    together = Queue.new
    scheduler = described_class.new(->(tasks) { together << tasks.size })
    one = Class.new { def together? = true }
    base = now + 0.1
    100.times { scheduler.schedule(one.new, base) }
    expect(together.pop).to eq(100)
  end

  it "holds no more entries than tasks several times, however often they are scheduled" do
    one = task(:one)
    10_000.times { |n| subject.schedule(one, now + 60 + n) }
    expect(subject.instance_variable_get(:@schedule).size).to be <= 70
    subject.cancel(one)
  end

  it "starts afresh in a child of a fork" do
    subject.schedule(task(:parent), now + 0.2)
    status = in_child do
      subject.schedule(task(:child), now)
      [ran.pop, (sleep(0.4) && ran.empty?)]
    end
    expect(status).to eq([:child, true])
  end
end
