# frozen_string_literal: true

require "redis"
require "spec_helper"

# The contract (support/store_contract/readers_and_writers.rb) tests the behaviour that all stores
# share.
RSpec.describe Plock::ReadWriteLock do
  let(:url) { shared_redis.unix_url }
  let(:store) { open_store(url) }
  let(:key) { "read_write:#{SecureRandom.hex(8)}" }
  let(:lock) { store.read_write_lock(key) }

  before { [url, key] } # made before any fork, so that all processes use the same ones

  # A process that holds the lock until the example sends it a message. It reports its fence when it
  # has the lock.
  def inside(method, **options)
    child do |parent|
      Plock::Store
        .open(url)
        .read_write_lock(key)
        .public_send(method, ttl: 30, wait: 30, **options) do |lease|
          parent.tell(lease.fence)
          parent.hear
        end
    end
  end

  def in_line(place, method)
    process = inside(method)
    eventually(5) { lock.status.waiters.size == place }
    process
  end

  # On Ruby 3.1, a WeakMap may return a different object for a key after GC.compact.
  it "takes no other lease for its own if the WeakMap that knows them has one in its place" do
    store = open_store
    one, other =
      Array.new(2) do |number|
        discard(store.read_write_lock("#{unique_key}:#{number}").read(ttl: 60), :release)
      end
    own = Plock::Locking::OwnShares.new
    own.add(:lock, one)
    expect(own.find(:lock)).to be(one)
    place = own.instance_variable_get(:@places).fetch(:lock)
    own.instance_variable_get(:@leases)[place] = other
    expect(own.find(:lock)).to be_nil
    # If an object reuses the memory of another one, both may have the same id.
    allow(other).to receive(:object_id).and_return(one.object_id)
    expect(own.find(:lock)).to be_nil
    own.instance_variable_get(:@leases)[place] = Object.new
    expect(own.find(:lock)).to be_nil
  end

  it "lets processes read together, and one write alone" do
    counter = "#{key}:inside"
    processes = Array.new(5) do |number|
      child do
        own = Plock::Store.open(url).read_write_lock(key)
        redis = Redis.new(path: shared_redis.unix_path)
        Array.new(12) do |round|
          writes = (number + round) % 4 == 0
          weight = writes ? 1_000 : 1
          own.public_send(writes ? :write : :read, ttl: 30, wait: 30) do
            redis.incrby(counter, weight).tap { redis.decrby(counter, weight) }
          end
        end
      end
    end
    seen = processes.flat_map(&:result).uniq
    expect(seen - [1, 2, 3, 4, 5, 1_000]).to be_empty
    expect(lock.status).not_to be_held
  end

  it "lets a writer in when a reader that was killed has no time left, and not later", :timing do
    reader = inside(:read, ttl: 1)
    reader.hear
    started = monotonic
    reader.signal(:KILL)
    reader.wait
    lock.write(ttl: 30, wait: 20) { nil }
    expect(monotonic - started).to be < 4
  end

  it "lets a writer in when a reader that was killed while it was renewed has no time left" do
    reader = inside(:read, ttl: 3, renew: true)
    reader.hear
    await_renewal(lock, 3)
    expect(lock.try_write).to be_nil
    reader.signal(:KILL)
    reader.wait
    expect(lock.write(ttl: 30, wait: 30) { :entered }).to be(:entered)
  end

  it "serves processes in order, readers together, even if some are killed while they wait" do
    first = inside(:write)
    first.hear
    line =
      %i[read write read read write].each_with_index.map do |method, number|
        in_line(number + 1, method)
      end
    line[1].signal(:KILL)
    line[1].wait
    first.tell(:leave)
    fences = [0, 2, 3].map { |number| line[number].hear } # all are inside together
    expect(lock.status.holders.map(&:mode)).to eq(%i[read read read])
    [0, 2, 3].each { |number| line[number].tell(:leave) }
    expect(line[4].hear).to be > fences.max
    line[4].tell(:leave)
    line[4].result
  end

  it "lets readers of other processes in when a writer downgrades" do
    lease = lock.write(ttl: 30)
    reader = in_line(1, :read)
    lease.downgrade
    expect(reader.hear).to be > lease.fence
    writer = in_line(1, :write)
    lease.release
    expect(lock.status.waiters.size).to be(1)
    reader.tell(:leave)
    expect(writer.hear).to be_an(Integer)
    writer.tell(:leave)
    writer.result
  end
end
