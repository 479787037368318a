# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "Hundreds of threads that wait" do
  include Support::Failures

  def waiters = 600
  def most_descriptors = 1_024
  def kept_at_most = 60 # a pool's connections, the channel's, and a few eventfds or pipes

  # In a child, all threads wait for one key that another lease holds. Then each thread acquires
  # the key. Returns how many threads did so, and how many descriptors were added while they waited
  # and afterwards.
  def wait_and_be_served(store, key)
    Process.setrlimit(:NOFILE, most_descriptors, Process.getrlimit(:NOFILE).last)
    before = Support::Inventory.descriptors.size
    holder = store.acquire(key, ttl: 300)
    served = Queue.new
    enter = -> { store.acquire(key, ttl: 300, wait: 200) { served << true } }
    threads = Array.new(waiters) { Thread.new(&enter) }
    Thread.pass until store.status(key).waiters.size == waiters
    waiting = Support::Inventory.descriptors.size
    file = File.open(File::NULL, &:stat) # fails unless the process can still open files
    holder.release
    threads.each(&:join)
    [served.size, waiting - before, Support::Inventory.descriptors.size - before, file.chardev?]
  end

  def expect_few_descriptors(outcome)
    served, while_waiting, afterwards, room = outcome
    expect(served).to eq(waiters)
    expect(while_waiting).to be <= kept_at_most
    expect(afterwards).to be <= kept_at_most
    expect(room).to be(true)
  end

  before { skip "/proc not mounted" unless Support::Inventory.available? }

  it "on Redis need no descriptor each: all are served, and other files can be opened meanwhile" do
    address = shared_redis.url
    expect_few_descriptors(in_child { wait_and_be_served(Plock::Store.open(address), unique_key) })
  end

  it "in a local store need none either" do
    Dir.mktmpdir do |folder|
      url = "local:#{folder}/locks"
      expect_few_descriptors(in_child { wait_and_be_served(Plock::Store.open(url), unique_key) })
    end
  end

  it "end at once by Thread#kill, Thread#raise and Timeout, and leave no descriptor behind" do
    address = shared_redis.url
    left, ended = in_child do
      store = Plock::Store.open(address)
      key = unique_key
      before = Support::Inventory.descriptors.size
      holder = store.acquire(key, ttl: 300)
      ways = [:kill.to_proc, ->(thread) { thread.raise(IOError, "interrupted") }]
      Thread.report_on_exception = false
      enter = -> { store.acquire(key, wait: 200) { raise "entered" } }
      threads = Array.new(40) { Thread.new(&enter) }
      timed = Array.new(20) { Thread.new { Timeout.timeout(0.3, IOError, &enter) } }
      Thread.pass until store.status(key).waiters.size >= threads.size
      threads.each_with_index { |thread, i| ways[i % 2].call(thread) }
      ends = (threads + timed).map { |thread| thread.join(20) && :ended rescue :raised }
      holder.release
      [Support::Inventory.descriptors.size - before, ends.tally]
    end
    expect(ended).to eq({ ended: 20, raised: 40 })
    expect(left).to be <= kept_at_most
  end
end
