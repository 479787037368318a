# frozen_string_literal: true

require "spec_helper"
require "support/failures"
require "support/replication"

# With `replicas: n`, a lease counts only when n replicas have it. A stopped replica confirms
# nothing, but the primary still counts it as a replica.
RSpec.describe "A lease that replicas confirm", needs: Support::RedisServer::PROGRAM do
  include Support::Failures

  # rubocop:disable RSpec/BeforeAfterAll -- the servers take a second to start, and stay as they are
  before(:all) { @group = Support::Replication.new }
  after(:all) { @group.stop }
  # rubocop:enable RSpec/BeforeAfterAll

  after do
    group.replicas.each(&:continue_process)
    group.await_all
  end

  let(:group) { @group }
  let(:primary) { group.primary }
  let(:key) { "replicated:#{SecureRandom.hex(8)}" }
  let(:options) { { namespace: SecureRandom.hex(8), attempt_timeout: 20, wait: 0 } }
  let(:store) { used(open_store(primary.url, replicas: 2, command_timeout: 20, **options)) }
  # For leases that are never confirmed. Without a long command_timeout, this store gives up sooner
  # than `store`.
  let(:hasty) { used(open_store(primary.url, replicas: 2, **options)) }
  let(:plain) { used(open_store(primary.url, **options)) }

  def stop_one = group.replicas.last.stop_process

  def continue_it = group.replicas.last.continue_process

  def free? = !plain.status(key).held?

  def refusal
    yield
    raise "it was granted"
  rescue Plock::UnavailableError => e
    e
  end

  def waits = primary.call("INFO", "commandstats")[/cmdstat_wait:calls=(\d+)/, 1].to_i

  it "is granted when they have it" do
    store_key = store.acquire(key, ttl: 30) { |lease| [lease.valid?, store.status(key).store_key] }
    expect(store_key.first).to be(true)
    lease = store.acquire(key, ttl: 30)
    values = group.servers.map { |server| server.call("GET", store_key.last) }
    expect(values.uniq.size).to eq(1)
    expect(values.first).not_to be_nil
    expect(lease.release).to be(true)
  end

  it "is not granted while one of them is silent, and is taken back" do
    stop_one
    error = refusal { hasty.acquire(key, ttl: 30) { raise "the block ran" } }
    expect(error).to have_attributes(
      code: :unreplicated, message: /\Aredis:.*: 1 of 2 replicas confirmed the lease/
    )
    eventually { free? }
  end

  it "is granted with fewer than the store's number if the call says so" do
    stop_one
    expect(store.acquire(key, ttl: 30, replicas: 1) { :ran }).to eq(:ran)
    expect(store.acquire(key, ttl: 30, replicas: 0) { :ran }).to eq(:ran)
  end

  it "is asked for by one call of a store that asks for none" do
    stop_one
    expect(plain.acquire(key, ttl: 30) { :ran }).to eq(:ran)
    error = refusal { plain.acquire(key, ttl: 30, replicas: 2) }
    expect(error.code).to eq(:unreplicated)
    eventually { free? }
  end

  it "takes the number from the URL" do
    stop_one
    store = open_store(primary.url("replicas=2"), **options)
    expect(refusal { store.acquire(key, ttl: 30) }.code).to eq(:unreplicated)
  end

  it "is asked for by once: the block runs only if they have the window" do
    stop_one
    error = refusal { plain.once(key, within: 60, replicas: 2) { raise "the block ran" } }
    expect(error.code).to eq(:unreplicated)
    eventually { plain.each_lock.none? }
    continue_it
    group.await_all
    windows = plain.once(key, within: 60, replicas: 2) do |lease|
      group.replicas.map { |replica| replica.call("PTTL", lease.store_key) }
    end
    expect(windows.value).to all(be > 50_000)
    expect(plain.once(key, within: 60, replicas: 2) { :ran }).not_to be_ran
  end

  it "costs a store that asks for none no request" do
    before = waits
    plain.acquire(key, ttl: 30, &:extend)
    expect(waits).to eq(before)
    store.acquire(key, ttl: 30, &:extend)
    expect(waits).to eq(before + 2)
  end

  it "is refused without asking the replicas while another holds the key" do
    lease = plain.acquire(key, ttl: 30)
    stop_one
    before = waits
    expect(store.try_acquire(key)).to be_nil
    expect(waits).to eq(before)
    lease.release
  end

  it "waits until they can confirm it" do
    stop_one
    waiter = background { hasty.acquire(key, ttl: 30, wait: 20) { :ran } }
    seen = waits
    eventually(20) { waits > seen + 1 } # the waiter has asked the replicas at least twice
    continue_it
    expect(waiter.value).to eq(:ran)
    eventually { free? }
  end

  it "is confirmed to a waiter in its turn" do
    holder = store.acquire(key, ttl: 30)
    waiter = background { store.acquire(key, ttl: 30, wait: 20) { waits } }
    eventually { plain.status(key).waiters.any? }
    before = waits
    holder.release
    expect(waiter.value).to be > before
  end

  it "raises what was missing when the wait is over" do
    stop_one
    error = refusal { hasty.acquire(key, ttl: 30, wait: 1) }
    expect(error).to have_attributes(code: :unreplicated, message: /2 replicas confirmed/)
    eventually { free? && plain.status(key).waiters.empty? }
  end

  it "is extended only if they confirm it" do
    lease = hasty.acquire(key, ttl: 5)
    ends = lease.valid_until
    expect(lease.extend(ttl: 6)).to be(lease)
    stop_one
    expect(refusal { lease.extend(ttl: 60) }.code).to eq(:unreplicated)
    expect(lease).to be_valid
    expect(lease.valid_until).to be_between(ends, ends + 2)
    continue_it
    expect(lease.extend(ttl: 60).remaining).to be > 50
    expect(lease.release).to be(true)
  end

  it "is lost when its renewals are not confirmed for a TTL" do
    lost = Queue.new
    lease = hasty.acquire(key, ttl: 0.6, renew: true, on_lost: lost.method(:push))
    stop_one
    expect(lost.pop).to be(lease)
    expect(lease).to have_attributes(valid?: false, lost?: true)
  end

  it "is renewed as long as they confirm it" do
    lease = store.acquire(key, ttl: 3, renew: true)
    seen = waits
    eventually(20) { waits > seen + 3 }
    expect(lease).to have_attributes(valid?: true, lost?: false)
    expect(lease.release).to be(true)
  end

  {
    "several keys" => ->(store, key, block) do
      store.acquire_all([key, "#{key}2"], ttl: 30, &block)
    end,
    "a try for several keys" => ->(store, key, block) do
      store.try_acquire_all([key, "#{key}2"], ttl: 30, &block)
    end,
    "a semaphore" => ->(store, key, block) do
      store.semaphore(key, permits: 3).acquire(ttl: 30, &block)
    end,
    "a lock to read" => ->(store, key, block) do
      store.read_write_lock(key).read(ttl: 30, &block)
    end,
    "a lock to write" => ->(store, key, block) do
      store.read_write_lock(key).write(ttl: 30, &block)
    end,
    "a monitor" => ->(store, key, block) do
      Plock::Monitor.new(key, store: store).synchronize(&block)
    end
  }.each do |name, call|
    it "is granted to #{name} only with their confirmation" do
      expect(call.call(store, key, ->(*) { :ran })).to eq(:ran)
      stop_one
      before = primary.call("DBSIZE")
      error = refusal { call.call(hasty, key, ->(*) { raise "the block ran" }) }
      expect(error.code).to eq(:unreplicated)
      eventually { plain.each_lock.none? }
      expect(call.call(plain, key, ->(*) { :ran })).to eq(:ran)
      expect(primary.call("DBSIZE")).to be <= before + 2
    end
  end

  # From Redis 7.2 on, WAIT asks only about the last write of its own connection. So a renewal must
  # write something before its WAIT, even if the lease already lasts long enough.
  {
    "a lock" => ->(store, key, options) { store.acquire(key, **options) },
    "a semaphore" => ->(store, key, options) do
      store.semaphore(key, permits: 2).acquire(**options)
    end
  }.each do |name, take|
    it "is confirmed by a write even if a renewal has nothing to prolong: #{name}" do
      lease = take.call(store, key, { ttl: 1.5, renew: true })
      prolong(lease)
      writes = -> { primary.call("INFO", "replication")[/master_repl_offset:(\d+)/, 1].to_i }
      seen = waits
      eventually { waits > seen + 1 }
      before = [waits, writes.call]
      eventually { waits > before.first }
      expect(writes.call).to be > before.last
      expect(lease.release).to be(true)
    end
  end

  # Changes the key like an extension. The server executes the change, but the replicas do not
  # confirm it.
  def prolong(lease)
    name = primary.call("KEYS", "plock:v1:*").first
    if primary.call("TYPE", name) == "zset"
      member, = primary.call("ZRANGE", name, 0, 0)
      primary.call("ZINCRBY", name, 60_000, member)
    end
    primary.call("PEXPIRE", name, 60_000)
    lease
  end

  it "comes to a caller that needs no confirmation, between those that get none" do
    stop_one
    callers = Array.new(4) { background { hasty.acquire(key, ttl: 30, wait: 20) } }
    eventually { plain.status(key).waiters.any? }
    expect(plain.acquire(key, ttl: 30, wait: 10) { :ran }).to eq(:ran)
  ensure
    callers&.each(&:kill)
  end

  it "raises what was missing even if the wait ends while they are asked" do
    store = used(open_store(primary.url, replicas: 2, **options, attempt_timeout: 0.1))
    holder = plain.acquire(key, ttl: 30)
    stop_one
    waiter = background { refusal { store.acquire(key, ttl: 30, wait: 0.8) } }
    eventually { plain.status(key).waiters.any? }
    holder.release
    expect(waiter.value.code).to eq(:unreplicated)
    eventually { free? && plain.status(key).waiters.empty? }
  end

  it "is waited for beyond unavailable_timeout, because the server answers" do
    patient = { unavailable_timeout: 0.5, command_timeout: 2, attempt_timeout: 0.3 }
    store = used(open_store(primary.url, replicas: 2, **options, **patient))
    stop_one
    waiter = background { store.acquire(key, ttl: 30, wait: 20) { :ran } }
    seen = waits
    eventually(20) { waits > seen + 2 }
    continue_it
    expect(waiter.value).to eq(:ran)
  end

  it "is adopted with as many confirmations as the call asks for" do
    dump = plain.acquire(key, ttl: 30).dump
    stop_one
    expect(refusal { plain.adopt(dump, replicas: 2) }.code).to eq(:unreplicated)
  end

  it "is adopted only with their confirmation" do
    dump = plain.acquire(key, ttl: 30).dump
    stop_one
    expect(refusal { hasty.adopt(dump) }.code).to eq(:unreplicated)
    eventually { free? } # only the refused call knows the new token, so it must release the lock
  end

  it "counts for the lock of a named owner, too" do
    store_key = Plock.store_key("plock:v1:", key)
    expect(store.lock_acquire(store_key, "me", 30)).to be(true)
    expect(store.lock_release(store_key, "me")).to be(true)
    stop_one
    expect(refusal { hasty.lock_acquire(store_key, "me", 30) }.code).to eq(:unreplicated)
    eventually { primary.call("EXISTS", store_key).zero? }
  end

  it "is not left behind by a caller that is interrupted meanwhile" do
    stop_one
    before = waits
    caller = background { hasty.acquire(key, ttl: 30, wait: 20) { raise "the block ran" } }
    eventually { primary.call("CLIENT", "LIST").include?("cmd=wait") || waits > before }
    caller.kill.join
    eventually { free? && plain.status(key).waiters.empty? }
  end

  it "is not left behind if the connection breaks meanwhile" do
    stop_one
    gate = proxy(primary)
    store = used(open_store(gate.url, replicas: 2, **options, wait: 0))
    gate.forget
    gate.hold(:reply, after: "WAIT")
    caller = background { store.acquire(key, ttl: 30) { raise "the block ran" } }
    gate.await(:request, /WAIT/)
    gate.disconnect
    gate.clear
    expect { caller.value }.to raise_error(Plock::Error) # otherwise this caller would hold the key
    eventually { free? }
  end

  it "begins with the request, however long they take to confirm it" do
    gate = proxy(primary)
    store = used(open_store(gate.url, replicas: 2, **options))
    gate.delay(:reply, 0.1, after: "WAIT")
    lease = store.acquire(key, ttl: 5, wait: 1)
    expect(lease.remaining).to be < 4.9
    lease.release
  end

  it "names the permission that is missing to ask them" do
    primary.call("ACL", "SETUSER", "no_wait", "on", ">pw", "~*", "&*", "+@all", "-wait")
    store = open_store(primary.url(user: "no_wait", password: "pw"), replicas: 1, **options)
    expect { store.acquire(key, ttl: 30) }
      .to raise_error(Plock::PermissionError, /permission.*wait/i)
    eventually { free? }
  end

  {
    "acquire" => ->(store, key) { store.acquire(key, replicas: 1) { nil } },
    "try_acquire" => ->(store, key) { store.try_acquire(key, replicas: 1) { nil } },
    "acquire_all" => ->(store, key) { store.acquire_all([key], replicas: 1) { nil } },
    "try_acquire_all" => ->(store, key) { store.try_acquire_all([key], replicas: 1) { nil } },
    "a semaphore" => ->(store, key) do
      store.semaphore(key, permits: 2).acquire(replicas: 1) { nil }
    end,
    "a lock to read" => ->(store, key) { store.read_write_lock(key).read(replicas: 1) { nil } }
  }.each do |name, call|
    it "is refused by #{name} of a store that has no replicas" do
      store = open_store("local:#{File.join(Support::Supervisor.folder, SecureRandom.hex(4))}")
      expect { call.call(store, key) }
        .to raise_error(Plock::UnsupportedError, /replicas: is for stores on Redis/)
      expect(store.acquire(key, replicas: 0) { :ran }).to eq(:ran)
    end
  end

  it "needs nothing in memory, where tests run the same calls" do
    store = open_store("memory:")
    expect(store.acquire(key, replicas: 2) { :ran }).to eq(:ran)
    expect(store.can?(:replicas)).to be(true)
  end

  it "takes no number that is none" do
    [-1, 101, 1.0, "1", true].each do |number|
      expect { plain.acquire(key, replicas: number) }
        .to raise_error(ArgumentError, /replicas: must be an Integer from 0 to 100/)
    end
    expect { open_store(primary.url, replicas: -1) }
      .to raise_error(Plock::ConfigurationError, /replicas must be from 0 to 100/)
    expect { open_store(primary.url("replicas=x")) }
      .to raise_error(Plock::ConfigurationError, /replicas: not a number from 0 to 100/)
  end
end
