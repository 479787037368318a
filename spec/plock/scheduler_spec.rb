# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "Under a Fiber scheduler", :fibers do
  include Support::Failures

  let(:gate) { proxy }
  let(:store) { warm(open_store(gate.url)) }
  let(:key) { unique_key }

  before { store }

  # Runs the block in a reactor. Errors of the block are raised here, without lines in async's
  # log.
  def reactor(&block) = Sync(&block)

  # Runs code other than plock's on a separate thread, because async has no hooks for plain sockets
  # on Ruby 3.1.
  def aside(&block) = Thread.new(&block).value

  # Counts the turns that another fiber gets while the block runs.
  def ticking(task)
    ticks = 0
    ticker = task.async { loop { sleep(0.002) && ticks += 1 } }
    yield
    ticks
  ensure
    ticker.stop
  end

  it "other fibers run while one waits for a reply" do
    gate.delay(:reply, 0.05)
    ticks = reactor { |task| ticking(task) { store.hold(key, 3_000, 5, nil) { nil } } }
    expect(ticks).to be >= 10
  end

  it "other fibers run while one waits for a lock" do
    shared_redis.call("SET", key, "somebody", "PX", 60_000)
    ticks = reactor { |task| ticking(task) { hold_failure(store, key, wait: 0.1) } }
    expect(ticks).to be >= 10
  end

  it "other fibers run while one connects, with TLS too" do
    secure = redis_server(:tls)
    gate = proxy(secure)
    gate.delay(:reply, 0.02)
    store = open_store(gate.url(scheme: "rediss"), ca_file: Support::Certificates.ca.cert_file)
    ticks = reactor { |task| ticking(task) { store.hold(key, 3_000, 5, nil) { nil } } }
    expect(ticks).to be >= 10
  end

  it "a fiber waits for a lock that another fiber of its thread holds" do
    order = reactor do |task|
      order = []
      inside = Queue.new
      first = task.async do
        store.hold(key, 3_000, 5, nil) do
          order << :first
          inside << true
          sleep 0.02
          order << :still_first
        end
      end
      inside.pop
      second = task.async { store.hold(key, 3_000, 5, nil) { order << :second } }
      [first, second].each(&:wait)
      order
    end
    expect(order).to eq(%i[first still_first second])
  end

  it "many fibers share a store, and exclude one another" do
    inside = overlaps = 0
    reactor do |task|
      fibers = Array.new(30) do
        task.async do
          store.hold(key, Support::Failures::TTL_MS, 30, nil) do
            inside += 1
            overlaps += 1 if inside > 1
            sleep 0.001
            inside -= 1
          end
        end
      end
      fibers.each(&:wait)
    end
    expect([overlaps, held?(key)]).to eq([0, false])
  end

  it "their waits are concurrent", :timing do
    gate.delay(:reply, 0.05)
    within(0.5) do # one after another, the calls would take 0.8 s or more
      reactor do |task|
        Array.new(8) { task.async { store.hold(unique_key, 3_000, 5, nil) { nil } } }.each(&:wait)
      end
    end
  end

  it "a call ends by its budget", :timing do
    gate.silent
    silent = open_store(gate.url)
    reactor do
      for_as_long_as(0.2) { attempt_failure(silent) }
      for_as_long_as(0.4) { hold_failure(silent, wait: 0.4) }
    end
  end

  it "a fiber that is stopped while it waits leaves no lock, and the store serves" do
    gate.hold(:reply, connections: 1)
    entered = false
    reactor do |task|
      waiter =
        task.async { store.hold(key, Support::Failures::TTL_MS, 30, ->(*) {}) { entered = true } }
      aside { eventually { held?(key) } }
      waiter.stop
      waiter.wait
    end
    expect(entered).to be(false)
    expect_no_orphan(key)
    expect(reactor { store.hold(key, 3_000, 5, nil) { :entered } }).to eq(:entered)
  end

  it "with_timeout ends a wait" do
    shared_redis.call("SET", key, "somebody", "PX", 60_000)
    ended = reactor do |task|
      task.with_timeout(0.05) { store.hold(key, 3_000, 30, nil) { :entered } }
    rescue Async::TimeoutError
      :timeout
    end
    expect(ended).to eq(:timeout)
    expect_service(store)
  end

  it "a fiber that is stopped in its block releases" do
    reactor do |task|
      inside = Queue.new
      holder = task.async do
        store.hold(key, Support::Failures::TTL_MS, 5, nil) do
          inside << true
          sleep
        end
      end
      inside.pop
      holder.stop
      holder.wait
    end
    expect_no_orphan(key)
  end

  it "a fiber that is stopped during its release still releases" do
    reactor do |task|
      leaving = Queue.new
      holder = task.async do
        store.hold(key, Support::Failures::TTL_MS, 5, nil) do
          aside do
            gate.forget
            gate.hold(:request)
          end
          leaving << true
        end
      end
      leaving.pop
      aside { gate.await(:request, "EVALSHA") }
      holder.stop
      aside { gate.clear }
      holder.wait
    end
    expect_no_orphan(key)
  end

  it "no descriptor is left, and threads can use the same store", :no_leaks do
    reactor do |task|
      Array.new(10) { task.async { store.hold(unique_key, 3_000, 5, nil) { nil } } }.each(&:wait)
    end
    expect(background { store.hold(key, 3_000, 1.0, nil) { :entered } }.value).to eq(:entered)
  end

  it "a fiber that may block (Fiber.new(blocking: true)) waits as a thread does" do
    value =
      reactor { Fiber.new(blocking: true) { store.hold(key, 3_000, 1.0, nil) { :entered } }.resume }
    expect(value).to eq(:entered)
  end
end
