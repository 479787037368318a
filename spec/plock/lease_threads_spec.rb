# frozen_string_literal: true

require "spec_helper"
require "support/failures"
require "support/reactor"

# A lease runs one operation at a time, whichever threads call it. A proxy, the gate, holds back
# the reply to one operation until another thread has called the next.
RSpec.describe "A lease that several threads use" do
  include Support::Failures

  let(:gate) { proxy }
  let(:timeouts) do
    { command_timeout: 5, release_timeout: 5, attempt_timeout: 5, connect_timeout: 5 }
  end
  let(:store) { open_store(gate.url, namespace: SecureRandom.hex(8), **timeouts) }
  let(:key) { unique_key }

  # Runs the call on another thread. Until the block ends, the gate holds back all replies on each
  # connection on which `request` has passed.
  def while_under_way(call, request = "EVALSHA")
    gate.forget
    gate.hold(:reply, after: request)
    thread = background { call.call }
    gate.await(:request, request)
    # the gate may have seen a request of the worker thread, before the call has sent its own
    await_sleep(thread)
    yield
  ensure
    gate.clear
    thread&.join
  end

  # Wakes a thread that sleeps in its block, so that the block ends while the call is under way.
  def end_beside(call, sleeper)
    while_under_way(call) do
      sleeper.run
      eventually { sleeper.stop? }
    end
    sleeper.join
  end

  # Runs a second call on another thread. Returns once it is waiting for the first call to end.
  def waiting(&call)
    thread = background(&call)
    eventually { thread.stop? }
    thread
  end

  def ways_to_hold(inside = nil)
    {
      "a lock" => ->(**options) { store.acquire(key, **options, &inside) },
      "a semaphore" => ->(**options) do
        store.semaphore(key, permits: 2).acquire(**options, &inside)
      end,
      "a lock that is read" => ->(**options) do
        store.read_write_lock(key).read(**options, &inside)
      end,
      "a lock that is written" => ->(**options) do
        store.read_write_lock(key).write(**options, &inside)
      end
    }
  end

  def take(kind, **options) = ways_to_hold.fetch(kind).call(ttl: 60, **options)

  # The locks of this store that still exist, of any kind.
  def held = store.each_lock.to_a

  ["a lock", "a semaphore", "a lock that is read", "a lock that is written"].each do |kind|
    it "releases #{kind} after the extension that is under way" do
      lease = take(kind)
      release = nil
      extension = -> { lease.extend(ttl: 30) }
      heard = warnings do
        while_under_way(extension) { release = waiting { lease.release } }
        expect(release.value).to be(true)
      end
      expect([heard, lease.lost?, held]).to eq([[], false, []])
    end

    it "extends #{kind} for two threads, one after another" do
      lease = take(kind)
      second = nil
      while_under_way(-> { lease.extend(ttl: 30) }) { second = waiting { lease.extend(ttl: 20) } }
      expect(second.value).to be(lease)
      expect(lease).to have_attributes(valid?: true, ttl: 20.0)
      expect(lease.release).to be(true)
    end
  end

  it "is released at the end of the block, with no loss, while another thread extends it" do
    heard = warnings do
      under_way = nil
      done = background do
        store.acquire(key, ttl: 60) do |lease|
          under_way = lease
          sleep
        end
      end
      eventually { done.stop? && under_way }
      end_beside(-> { under_way.extend }, done)
    end
    expect([heard, held]).to eq([[], []])
  end

  it "leaves no key behind, and does not warn, if a heartbeat extends leases while blocks end" do
    lost = Queue.new
    direct = open_store(namespace: SecureRandom.hex(8))
    heard = warnings do
      300.times do |n|
        beat = nil
        direct.acquire("beat #{n}", ttl: 30, on_lost: lost.method(:push)) do |lease|
          begun = Queue.new
          beat = background do
            loop { lease.extend(ttl: 30) && begun << true }
          rescue Plock::LeaseLost => e
            e.message
          end
          begun.pop
        end
        expect(beat.value).to match(/is released/)
      end
    end
    Plock::Dispatcher.flush
    expect([heard, lost.size, direct.each_lock.to_a]).to eq([[], 0, []])
  end

  describe "that another thread is releasing" do
    # Runs a block whose lease another thread releases. The block's call must not return before
    # that release has ended. The key must be free at most `kept` seconds later.
    def expect_to_await_release(kept: 0)
      known = Queue.new
      leave = Queue.new
      inside = nil
      done = background { yield ->(lease) { (known << lease) && leave.pop } }
      lease = known.pop
      heard = warnings do
        while_under_way(-> { inside = lease.release }) do
          leave << true
          expect(done.join(0.05)).to be_nil
        end
        done.join
      end
      expect([inside, heard]).to eq([true, []])
      eventually(kept) { held.empty? }
    end

    ["a lock", "a semaphore", "a lock that is read", "a lock that is written"].each do |kind|
      it "makes its block wait for the release: #{kind}" do
        expect_to_await_release { |inside| ways_to_hold(inside).fetch(kind).call(ttl: 60) }
      end
    end

    it "makes its block wait for the release: acquire_all" do
      expect_to_await_release do |inside|
        store.acquire_all([key], ttl: 60) { |leases| inside.call(leases.first) }
      end
    end

    it "makes its block wait for the release: once" do
      expect_to_await_release(kept: 1) do |inside|
        store.once(key, within: 0.5) { |lease| lease.extend(ttl: 60) && inside.call(lease) }
      end
    end

    it "makes a monitor wait for the release" do
      monitor = Plock::Monitor.new(key, store: store, ttl: 60, renew: false)
      expect_to_await_release do |inside|
        monitor.synchronize { inside.call(Thread.current[:plock_monitors][monitor].lease) }
      end
    end

    it "makes another release wait for the first" do
      lease = take("a lock")
      second = nil
      while_under_way(-> { lease.release }) do
        second = background { lease.release }
        expect(second.join(0.05)).to be_nil
      end
      expect([second.value, held]).to eq([false, []])
    end
  end

  it "does not deadlock if a signal's handler releases it while its release is under way" do
    lease = take("a lock")
    handled = nil
    lease.hold.define_singleton_method(:release) do |keep|
      handler = handled.nil? ? lease : nil
      handled ||= :begun
      handled = handler.release if handler
      super(keep)
    end
    expect([handled, lease.release, handled, held]).to eq([nil, false, true, []])
  end

  it "downgrades after the extension that is under way, and releases after the downgrade" do
    lease = take("a lock that is written")
    downgrade = release = nil
    while_under_way(-> { lease.extend(ttl: 30) }) { downgrade = waiting { lease.downgrade } }
    expect(downgrade.value.mode).to be(:read)
    lease.release

    lease = take("a lock that is written")
    while_under_way(-> { lease.downgrade }) { release = waiting { lease.release } }
    expect([release.value, held]).to eq([true, []])
  end

  it "is handed over after the extension that is under way, which reports no loss" do
    lease = take("a lock")
    dump = nil
    while_under_way(-> { lease.extend(ttl: 30) }) { dump = waiting { lease.dump } }
    dump = dump.value
    expect(lease).to have_attributes(valid?: false, lost?: false)
    expect(store.adopt(dump).release).to be(true)
  end

  it "refuses an extension after the release as released, and reports no loss" do
    lost = Queue.new
    lease = take("a lock", on_lost: lost.method(:push))
    late = nil
    while_under_way(-> { lease.extend(ttl: 30) }) do
      release = waiting { lease.release }
      late = waiting { lease.extend(ttl: 20) }
      release
    end
    expect { late.value }.to raise_error(Plock::LeaseLost, /is released/)
    Plock::Dispatcher.flush
    expect([lost.size, lease.lost?, held]).to eq([0, false, []])
  end

  it "says why its turn did not come at the end of a block" do
    logger = double("logger", warn: nil)
    store = used(open_store(gate.url, command_timeout: 4, release_timeout: 0.3, logger: logger))
    extension = nil
    store.acquire(key, ttl: 20) do |lease|
      lease.extend(ttl: 20) # loads the script on the server, so that one request is enough
      gate.forget
      gate.hold(:reply)
      extension = background { lease.extend(ttl: 6) }
      gate.await(:request, /EVALSHA/)
      await_sleep(extension)
    end
    gate.clear
    extension.join
    expect(logger).to have_received(:warn).with(/another operation on the lease/)
  end

  # An extension without a reply takes command_timeout, which is a second.
  it "releases within its budget, even if it must first wait for an extension", :timing do
    store = open_store(gate.url, command_timeout: 1, release_timeout: 1)
    lease = store.acquire(key, ttl: 60)
    gate.forget
    gate.hold(:reply)
    extension = background do
      lease.extend
    rescue Plock::UnavailableError
      nil
    end
    gate.await(:request, /EVALSHA/)
    took = elapsed { expect { lease.release }.to raise_error(Plock::UnavailableError) }
    expect(took).to be_between(0.5, 1.4)
    gate.clear
    extension.join
    eventually { !store.status(key).held? }
  end

  it "serves threads in the order of their calls" do
    lease = take("a lock")
    done = Queue.new
    threads = []
    while_under_way(-> { lease.extend(ttl: 30) }) do
      3.times { |n| threads << waiting { lease.extend(ttl: 10 + n) && done << n } }
    end
    threads.each(&:join)
    expect(Array.new(3) { done.pop }).to eq([0, 1, 2])
    lease.release
  end

  # The extension has a longer ttl than the renewals. An extension with a shorter ttl would first
  # wait for the end of a renewal that is under way.
  it "is renewed and extended and released at the same time" do
    lost = Queue.new
    lease = take("a lock", renew: true, on_lost: lost.method(:push))
    release = nil
    while_under_way(-> { lease.extend(ttl: 61) }, "\r\n61000\r\n") do
      release = waiting { lease.release }
    end
    expect(release.value).to be(true)
    Plock::Dispatcher.flush
    expect([lost.size, held]).to eq([0, []])
  end

  it "releases all leases of a group, whichever of them is being extended" do
    leases = nil
    heard = warnings do
      done = background do
        store.acquire_all([key, "#{key}:2", "#{key}:3"], ttl: 60) do |all|
          leases = all
          sleep
        end
      end
      eventually { done.stop? && leases }
      while_under_way(-> { leases[1].extend }) do
        done.run
        eventually { done.stop? }
      end
      done.join
    end
    expect([heard, leases.map(&:lost?), held]).to eq([[], [false] * 3, []])
  end

  it "is given back by a monitor while another thread extends it" do
    monitor = Plock::Monitor.new(key, store: store, ttl: 60, renew: false)
    heard = warnings do
      lease = nil
      done = background do
        monitor.synchronize do
          lease = Thread.current[:plock_monitors][monitor].lease
          sleep
        end
      end
      eventually { done.stop? && lease }
      end_beside(-> { lease.extend }, done)
    end
    expect([heard, held]).to eq([[], []])
  end

  it "is given back by Store#hold while another thread extends it" do
    hold = nil
    done = background do
      store.hold(key, 60_000, 0.0, nil) do |held|
        hold = held
        sleep
      end
    end
    eventually { done.stop? && hold }
    end_beside(-> { hold.extend(30) }, done)
    expect(held?(key)).to be(false)
  end

  it "waits without the GVL, and lets Timeout, kill and raise end the wait of an extension" do
    lease = take("a lock")
    while_under_way(-> { lease.extend(ttl: 30) }) do
      expect { Timeout.timeout(0.05) { lease.extend(ttl: 20) } }.to raise_error(Timeout::Error)
      killed = waiting { lease.extend(ttl: 20) }
      killed.kill.join
      raised = waiting { lease.extend(ttl: 20) }
      raised.raise(IOError, "stop")
      expect { raised.value }.to raise_error(IOError, "stop")
    end
    expect(lease).to have_attributes(valid?: true, ttl: 30.0)
    expect(lease.release).to be(true)
  end

  it "releases even if it is interrupted while it waits for the extension that is under way" do
    lease = take("a lock")
    release = nil
    while_under_way(-> { lease.extend(ttl: 30) }) do
      release = waiting { lease.release }
      release.kill
    end
    release.join
    expect(held).to eq([])
  end

  it "serves fibers of one thread under a scheduler", :fibers do
    lease = take("a lock")
    released = nil
    gate.forget
    gate.hold(:reply)
    opener = background { gate.await(:request, /EVALSHA/) && sleep(0.05) && gate.clear }
    Async do |task|
      task.async { lease.extend(ttl: 30) }
      task.async { released = lease.release }
    end
    opener.join
    expect([released, held]).to eq([true, []])
  end

  describe "while its store does not reply" do
    let(:timeouts) do
      { command_timeout: 5, release_timeout: 0.2, attempt_timeout: 5, connect_timeout: 5 }
    end

    it "waits no longer than release_timeout, says so, and is released in the background" do
      # Loads the script. Otherwise, the server only replies that it does not know the script.
      lease = take("a lock").extend(ttl: 50)
      gate.forget
      gate.hold(:reply, connections: 1)
      extension = background { lease.extend(ttl: 30) }
      gate.await(:request, /EVALSHA/)
      expect { lease.release }.to raise_error(Plock::UnavailableError, /still under way/) { |e|
        expect(e.code).to eq(:in_use)
      }
      expect(lease).to have_attributes(valid?: false, lost?: false)
      eventually { held.empty? }
      gate.clear
      extension.join
      expect(lease.lost?).to be(false)
    end
  end

  it "does nothing to the parent's lease in a forked child, even during an operation",
     :many_children do
    lease = take("a lock")
    while_under_way(-> { lease.extend(ttl: 30) }) do
      answers =
        in_child do
          [
            lease.release,
            (
              begin
                lease.extend
              rescue StandardError
                $!.class.name
              end
            ),
            lease.valid?
          ]
        end
      expect(answers).to eq([false, "Plock::LeaseLost", false])
    end
    expect(lease.release).to be(true)
  end
end
