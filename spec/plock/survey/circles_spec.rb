# frozen_string_literal: true

require "spec_helper"
require "plock"
require "plock/survey"

RSpec.describe Plock::Survey::Circles do
  def status(key, holders, waiters)
    Plock::Status.new(
      key, key,
      [holders.map { |name| Plock::Status.holder(host: "h", pid: name, thread: name) },
       waiters.map { |name| Plock::Status.waiter(host: "h", pid: name, thread: name) }]
    )
  end

  def found(*statuses)
    described_class.in(statuses).map do |waits|
      waits.map { |wait| [wait.waiter.pid, wait.status.key, wait.holder.pid] }.sort
    end
  end

  it "finds threads that wait for one another" do
    expect(found(status("a", [1], [2]), status("b", [2], [1]))).to eq [[[1, "b", 2], [2, "a", 1]]]
    three = [status("a", [1], [3]), status("b", [2], [1]), status("c", [3], [2])]
    expect(found(*three)).to eq [[[1, "b", 2], [2, "c", 3], [3, "a", 1]]]
  end

  it "leaves out those that only wait for a circle" do
    two = [status("a", [1], [2, 9]), status("b", [2], [1])]
    expect(found(*two)).to eq [[[1, "b", 2], [2, "a", 1]]]
  end

  it "finds one that waits for itself" do
    expect(found(status("a", [1], [1]))).to eq [[[1, "a", 1]]]
  end

  it "finds one only if all holders of a semaphore wait, but one of a lock" do
    other = status("b", [2], [1])
    expect(found(status("a:semaphore", [1, 3], [2]), other)).to eq []
    expect(found(status("a:rw", [1, 3], [2]), other)).to eq [[[1, "b", 2], [2, "a:rw", 1]]]
    third = status("c", [2], [3])
    expect(found(status("a:semaphore", [1, 3], [2]), other, third).flatten(1))
      .to include [2, "a:semaphore", 1]
  end

  it "finds each of several circles once" do
    one = [status("a", [1], [2]), status("b", [2], [1])]
    two = [status("c", [3], [4]), status("d", [4], [3, 5, 6])]
    expect(found(*one, *two)).to eq [[[1, "b", 2], [2, "a", 1]], [[3, "d", 4], [4, "c", 3]]]
  end

  it "finds a circle of many, with many behind it" do
    size = 20_000
    chain = Array.new(size) { |n| status("k#{n}", [n], [n + 1, size + 1 + n]) }
    expect(found(*chain)).to eq []
    expect(found(*chain, status("last", [size], [0])).map(&:size)).to eq [size + 1]
  end

  it "counts holders of a semaphore once for all waiters" do
    crowd = Array.new(2_000) { |number| number }
    waits = status("a:semaphore", crowd, crowd.map { |number| number + 2_000 })
    began = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    expect(found(waits)).to eq []
    expect(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - began).to be < 2
  end

  it "finds none in a queue, nor among owners that are unknown" do
    expect(found(status("a", [1], [2, 3]), status("b", [2], [4]))).to eq []
    unknown = Plock::Status.new("a", "a", [[Plock::Status.holder], [Plock::Status.waiter]])
    expect(described_class.in([unknown])).to eq []
  end
end
