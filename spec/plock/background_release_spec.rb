# frozen_string_literal: true

require "spec_helper"

# With `release: :background`, the end of the block sends the release and does not wait for its
# answer.
RSpec.describe "A release in the background" do
  let(:key) { SecureRandom.hex(8) }
  let(:gate) { proxy }
  let(:options) { { release: :background } }
  let(:store) { warm(open_store(**options)) }
  let(:other) { open_store }
  let(:far) { warm(open_store(gate.url, **options)) }

  # Makes one release in the foreground, so that the server knows the script.
  def warm(store)
    store.acquire("another key") { nil }
    store
  end

  # Waits for the releases before the examples' servers end.
  after { Plock::Daemon.settle }

  # Waits until all releases of this process have ended, even those of earlier examples, for up to
  # 5 s. Each call waits for up to a quarter of a second.
  def settle = 20.times { Plock::Daemon.settle }

  def expect_free(key) = eventually(5, "the key stays taken") { !other.status(key).held? }

  ways = {
    "acquire" => ->(store, key, &block) { store.acquire(key, wait: 0, &block) },
    "acquire with a label" => ->(store, key, &block) { store.acquire(key, label: "x", &block) },
    "try_acquire" => ->(store, key, &block) { store.try_acquire(key, &block) },
    "a semaphore" => ->(store, key, &block) { store.semaphore(key, permits: 1).acquire(&block) },
    "a write lock" => ->(store, key, &block) { store.read_write_lock(key).write(&block) },
    "a read lock" => ->(store, key, &block) { store.read_write_lock(key).read(&block) },
    "a monitor" => ->(store, key, &block) do
      Plock::Monitor.new(key, store: store).synchronize(&block)
    end
  }

  ways.each do |name, way|
    it "of #{name} is not waited for, and the next call comes behind it" do
      200.times { |number| expect(way.call(store, key) { number }).to eq(number) }
      expect_free(key)
    end
  end

  it "returns before the server has answered" do
    far
    entered = background { far.acquire(key) { gate.hold(:reply) || :done } }
    expect(entered.value).to be(:done)
    gate.clear
    expect_free(key)
  end

  it "is asked for by a call, too" do
    store = warm(open_store(gate.url))
    entered =
      background { store.acquire(key, release: :background) { gate.hold(:reply) || :done } }
    expect(entered.value).to be(:done)
    gate.clear
    expect_free(key)
  end

  it "waits for the answer if the call says so" do
    far
    held = Queue.new
    release = background { far.acquire(key, release: :wait) { held << gate.hold(:reply) } }
    held.pop
    await_sleep(release)
    expect(release).to be_alive
    gate.clear
    release.value
  end

  it "is not overtaken by another thread's call for the key" do
    store = warm(open_store(pool_size: 3, **options))
    turns = Queue.new
    others =
      Array.new(2) { background { 300.times { store.acquire(SecureRandom.hex(4)) { nil } } } }
    pairs = background { 300.times { turns << store.try_acquire(key) { true } } }
    [*others, pairs].each(&:value)
    expect(Array.new(turns.size) { turns.pop }.count(&:nil?)).to eq(0)
  end

  it "lets the next waiter in" do
    held = background { store.acquire(key) { sleep } }
    eventually { other.status(key).held? }
    waiting = background { other.acquire(key, wait: 10) { :in } }
    eventually { other.status(key).waiters.size == 1 }
    held.wakeup
    expect(waiting.value).to be(:in)
  end

  it "leaves the rest of at_least: to the key" do
    store.acquire(key, at_least: 0.3) { nil }
    expect(other.try_acquire(key) { true }).to be_nil
    expect_free(key)
  end

  it "warns of a lease that was lost in its block" do
    said = warnings do
      store.acquire(key) { other.break(key) }
      store.acquire(key) { nil } # first reads the answer to the release above
      Plock::Dispatcher.flush
    end
    expect(said).to contain_exactly(/#{Plock.store_key("plock:v1:", key)}.* was lost before its/)
  end

  it "warns at once of a lease that has expired in its block" do
    said = warnings { store.acquire(key, ttl: 0.05) { sleep 0.1 } }
    expect(said).to contain_exactly(/"#{key}" .* is lost before its block ended/)
  end

  it "warns of a lost lease though the store is closed at once" do
    said = warnings do
      store.acquire(key) { other.break(key) }
      store.close
      Plock::Dispatcher.flush
    end
    expect(said).to contain_exactly(/was lost before its block ended/)
  end

  it "keeps no signal handler from the key" do
    far.acquire(key) { gate.delay(:reply, 0.1) }
    got = nil
    trap("USR2") { got = far.acquire(key, wait: 5) { :got } }
    signal = background { sleep(0.05) && Process.kill("USR2", Process.pid) }
    within(1) { far.acquire("another key") { nil } }
    signal.join
    eventually { got == :got }
  ensure
    trap("USR2", "DEFAULT")
  end

  it "goes on until it has reached the server" do
    far.acquire(key) { gate.cut(:reply, connections: 1) }
    expect_free(key)
    settle # otherwise, the gate might swallow a second attempt of the first release
    far.acquire(key) { gate.swallow(:request, connections: 1) }
    expect_free(key)
    settle
  end

  it "is known to the server again after SCRIPT FLUSH" do
    store.acquire(key) { shared_redis.call("SCRIPT", "FLUSH") }
    expect_free(key)
  end

  it "is done when a process ends" do
    url = shared_redis.url
    5.times do
      in_child { Plock::Store.open(url, release: :background).acquire(key) { nil } }
      expect(other.status(key)).not_to be_held
    end
  end

  it "belongs to the parent after a fork" do
    far.acquire(key) { gate.hold(:reply, connections: 1) }
    expect(in_child { far.acquire("#{key} of the child") { :child } }).to be(:child)
    gate.clear
    expect(far.acquire(key) { :parent }).to be(:parent)
    expect_free(key)
  end

  it "is done when the store is closed" do
    store.acquire(key) { nil }
    store.close
    expect_free(key)
  end

  it "speaks TLS" do
    server = redis_server(:tls)
    store =
      open_store(
        server.url(host: "localhost"), ca_file: Support::Certificates.ca.cert_file,
                                       attempt_timeout: 5, **options
      )
    50.times { |number| expect(store.acquire(key, wait: 5) { number }).to eq(number) }
  end

  it "works in fibers" do
    require "async"
    done = Async { Array.new(20) { |n| Async { store.acquire(key, wait: 10) { n } } }.map(&:wait) }
    expect(done.wait).to match_array(0...20)
    expect_free(key)
  end

  it "needs no wait on a local store and in memory" do
    ["memory:", "local:#{Dir.mktmpdir}/locks"].each do |url|
      store = discard(Plock::Store.open(url, **options), :close)
      expect(Array.new(3) { |n| store.acquire(key, wait: 0) { n } }).to eq([0, 1, 2])
      expect(store.can?(:background_release)).to be(true)
    end
  end

  it "is refused as anything but :wait or :background" do
    message = "release: must be :wait or :background (got :later)"
    expect { open_store(release: :later) }.to raise_error(Plock::ConfigurationError, message)
    expect { store.acquire(key, release: :later) { nil } }.to raise_error(ArgumentError, message)
  end
end
