# frozen_string_literal: true

require "redis"
require "spec_helper"

# The contract (support/store_contract/semaphores.rb) tests the behaviour that all stores share.
RSpec.describe Plock::Semaphore do
  let(:url) { shared_redis.unix_url }
  let(:store) { open_store(url) }
  let(:key) { "semaphore:#{SecureRandom.hex(8)}" }

  # made before any fork, so that all processes use the same ones
  before { [url, key, shared_redis.client] }

  def semaphore(permits, store = self.store) = store.semaphore(key, permits: permits)

  # Starts a process that holds a permit until the example sends it a message.
  def holder(permits, **options)
    process = child do |parent|
      lease = semaphore(permits, Plock::Store.open(url)).acquire(wait: 20, **options)
      parent.tell(lease.fence)
      parent.hear
      lease.release
    end
    [process, process.hear]
  end

  def waiting = semaphore(1).status.waiters.size

  it "lets no more processes in at a time than there are permits" do
    counter = "#{key}:inside"
    processes = Array.new(6) do
      child do
        own = Plock::Store.open(url)
        redis = Redis.new(path: shared_redis.unix_path)
        Array.new(15) do
          semaphore(3, own).acquire(ttl: 30, wait: 30) do
            redis.incr(counter).tap { redis.decr(counter) }
          end
        end.max
      end
    end
    expect(processes.map(&:result).max).to be_between(1, 3)
    expect(semaphore(3).status).not_to be_held
  end

  it "regains only the permits of killed processes, when their leases expire" do
    killed, = holder(2, ttl: 1)
    expect([semaphore(2).try_acquire { semaphore(2).try_acquire.nil? }]).to eq([true])
    killed.signal(:KILL)
    killed.wait
    kept = semaphore(2).acquire(ttl: 30, wait: 20)
    again = semaphore(2).acquire(ttl: 30, wait: 20)
    expect(semaphore(2).try_acquire).to be_nil
    [kept, again].each(&:release)
  end

  it "regains the permit of a process that is killed while its lease is renewed" do
    killed, fence = holder(1, ttl: 3, renew: true)
    await_renewal(semaphore(1), 3)
    expect(semaphore(1).try_acquire).to be_nil
    killed.signal(:KILL)
    killed.wait
    expect(semaphore(1).acquire(wait: 30, &:fence)).to be > fence
  end

  it "serves processes in order of arrival, even if some are killed while they wait" do
    kept, lease = Array.new(2) { semaphore(2).acquire(ttl: 60, wait: 0) }
    line = Array.new(6) do |number|
      process = child do |parent|
        semaphore(2, Plock::Store.open(url)).acquire(ttl: 10, wait: 30) do |lease|
          parent.tell(lease.fence)
        end
        nil
      end
      eventually(5) { waiting == number + 1 }
      process
    end
    [0, 3].each { |number| line[number].signal(:KILL) && line[number].wait }
    # Only one of the two permits becomes free, so the waiters enter one after another. Waiters that
    # are admitted together may enter in any order.
    lease.release
    fences = [1, 2, 4, 5].map { |number| line[number].hear }
    expect(fences).to eq(fences.sort)
    kept.release
    eventually { !semaphore(2).status.held? && waiting.zero? }
  end

  it "keeps the fence growing after a time without a holder" do
    first = semaphore(1).acquire(&:fence)
    eventually { !semaphore(1).status.held? }
    expect(semaphore(1).acquire(&:fence)).to be > first
  end

  it "leaves no keys behind but the one with the fence, and that one ends" do
    semaphore(2).acquire { semaphore(2).acquire { nil } }
    digest = store.status(key).store_key[-64..]
    left = shared_redis.call("KEYS", "*#{digest}*")
    expect(left.size).to be <= 1
    expect(left.map { |name| shared_redis.call("PTTL", name) }).to all(
      be_between(1, 86_400_000 + 60_000)
    )
  end

  it "works in a Ractor" do
    output, status = ruby(<<~RUBY, url, key)
      require "plock"
      Warning[:experimental] = false
      p Ractor.new(*ARGV) { |url, key|
        store = Plock::Store.open(url)
        lock = store.read_write_lock(key)
        inner = lock.read { |lease| lock.read { |own| own.equal?(lease) } }
        monitor = Plock::Monitor.new(key, store: store)
        [store.semaphore(key, permits: 2).acquire { |lease| lease.valid? }, inner,
         lock.write { |lease| lease.downgrade.mode },
         store.acquire_all([key, key + "2"]) { |leases| leases.size },
         store.once(key, within: 0.1) { 1 }.value,
         monitor.synchronize { monitor.synchronize { monitor.mon_owned? } }]
      }.take
    RUBY
    expect(status).to be_success, output
    expect(output).to eq("[true, true, :read, 2, 1, true]\n")
  end
end
