# frozen_string_literal: true

require "spec_helper"
require "support/failures"
require "support/command_line"

RSpec.describe "A call with a long wait and a server that is away" do
  include Support::Failures
  include Support::CommandLine

  # In seconds: the default of unavailable_timeout, and the time that scheduling and the last
  # attempt may add.
  def gives_up = 1.0
  def grace = 0.6
  def long = 60

  let(:gate) { proxy }
  let(:store) { open_store(gate.url) }
  let(:key) { lock_name }

  def expect_to_give_up(after: gives_up)
    error = nil
    began = monotonic
    expect { yield }.to raise_error(Plock::UnavailableError) { |e| error = e }
    expect(monotonic - began).to be_between(after - 0.05, after + grace)
    error
  end

  ways = {
    "acquire" => ->(store, key, wait) { store.acquire(key, wait: wait) { raise "entered" } },
    "try_acquire" => ->(store, key, wait) do
      store.try_acquire(key, wait: wait) { raise "entered" }
    end,
    "a semaphore" => ->(store, key, wait) do
      store.semaphore(key, permits: 2).acquire(wait: wait) { raise "entered" }
    end,
    "a read lock" => ->(store, key, wait) do
      store.read_write_lock(key).read(wait: wait) { raise "entered" }
    end,
    "a write lock" => ->(store, key, wait) do
      store.read_write_lock(key).write(wait: wait) { raise "entered" }
    end,
    "a monitor" =>
      ->(store, key, wait) do
        Plock::Monitor.new(key, store: store, wait: wait).synchronize { raise "entered" }
      end,
    "acquire_all" => ->(store, key, wait) do
      store.acquire_all([key, "#{key}:2"], wait: wait) { raise "entered" }
    end,
    "hold" => ->(store, key, wait) { store.hold(key, 30_000, wait, nil) { raise "entered" } }
  }

  it "gives up after a second with UnavailableError, whichever call it is", :timing do
    gate.refuse
    calls = ways.transform_values do |way|
      background { expect_to_give_up { way.call(store, lock_name, long) } }
    end
    calls.each do |name, call|
      expect([name, call.value.code]).to eq([name, :connect])
      expect(call.value.message).to include(
        gate.port.to_s, "(gave up after 1 s: unavailable_timeout)"
      )
    end
  end

  it "acquire_all ends when its wait is over, however long its first attempt takes", :timing do
    slow = warm(open_store(gate.url, attempt_timeout: 1, unavailable_timeout: long))
    gate.silent
    gate.disconnect
    began = monotonic
    expect { slow.acquire_all([key, "#{key}:2"], wait: 1.2) { raise "entered" } }.to raise_error(
      Plock::UnavailableError
    )
    expect(monotonic - began).to be_between(1.15, 1.7)
  end

  it "gives up if a server accepts and is silent", :timing do
    gate.silent
    expect(expect_to_give_up { store.acquire(key, wait: long) { raise "entered" } }.code).to eq(
      :silent
    )
  end

  it "gives up after the time that a keyword or the URL sets", :timing do
    gate.refuse
    [
      open_store(gate.url, unavailable_timeout: 0.3),
      open_store(gate.url("unavailable_timeout=0.3"))
    ].each do |store|
      expect_to_give_up(after: 0.3) { store.acquire(key, wait: long) { raise "entered" } }
    end
    [0, 3_601, "1"].each do |value|
      expect { open_store(gate.url, unavailable_timeout: value) }.to raise_error(
        Plock::ConfigurationError, /unavailable_timeout/
      )
    end
  end

  it "gives up if it waits in the queue and the server goes away", :timing do
    holder = open_store.acquire(key, ttl: long)
    waiter = background do
      store.acquire(key, wait: long) { raise "entered" }
    rescue Plock::UnavailableError
      monotonic
    end
    eventually { open_store.status(key).waiters.size == 1 }
    gate.refuse
    gone = monotonic
    gate.disconnect
    expect(waiter.value - gone).to be_between(gives_up - 0.05, gives_up + grace)
    holder.release
  end

  it "leaves Parse::Lock, which reports each failed attempt, its whole wait", :timing, :slow do
    gate.refuse
    wait = gives_up + 0.5
    told = []
    report = ->(event, error) { told << [event, error.code] }
    for_as_long_as(wait) do
      answer = store.hold_digest("plock:v1:", key, nil, 30_000, wait, report) { raise "entered" }
      expect(answer).to equal(Plock::Store::UNACQUIRED)
    end
    expect(told.uniq).to eq([%i[acquire connect]])
    for_as_long_as(wait) do
      expect { store.hold(key, 30_000, wait, report) { raise "entered" } }.to raise_error(
        Plock::TimeoutError
      )
    end
  end

  it "leaves the command its whole --wait, unless the URL says otherwise", :timing, :slow do
    gate.refuse
    wait = gives_up + 1.0
    run = ->(url) do
      began = monotonic
      status = plock("run", "--wait", wait.to_s, "--store", url, key, "--", "true").last
      [status.exitstatus, monotonic - began]
    end
    status, seconds = run.call(gate.url)
    expect(status).to eq(69)
    expect(seconds).to be >= wait
    status, seconds = run.call(gate.url("unavailable_timeout=0.3"))
    expect(status).to eq(69)
    expect(seconds).to be < wait
  end
end
