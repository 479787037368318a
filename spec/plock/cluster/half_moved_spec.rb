# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/scripts"
require "support/store_contract"

# Either the lock itself or its companion has moved to another node. The companion has the record
# of the holder.
RSpec.describe "A break on a Redis Cluster while only a part of the lock has moved", :slow,
               needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  before(:all) { @cluster = Support::Cluster.new(replicas: 0) }

  after(:all) { @cluster.stop }

  attr_reader :cluster

  let(:store) { used(open_store(cluster.url)) }
  let(:patient) { open_store(cluster.url, command_timeout: 20) }
  let(:key) { "half:#{SecureRandom.hex(8)}" }
  let(:told) { Queue.new }
  let(:watched) { { ttl: 30, wait: 5, renew: true, on_lost: ->(_) { told << monotonic } } }

  # How many requests the nodes have answered with TRYAGAIN.
  def refused
    cluster.servers.sum do |one|
      one.call("INFO", "errorstats")[/errorstat_TRYAGAIN:count=(\d+)/, 1].to_i
    end
  end

  def move_half(lease, part, &meanwhile)
    lock = lease.store_key
    slot = cluster.slot(lock)
    to = (cluster.primaries - [cluster.owner_of(slot)]).first
    cluster.move(slot, to, keys: [part == :lock ? lock : Support::Scripts.companion(lock)],
                 &meanwhile)
  end

  # Breaks the lock while half of its keys have moved. Returns when the break has ended.
  def break_meanwhile(lease, part, &breaks)
    thread = nil
    move_half(lease, part) do
      before = refused
      thread = background { [breaks.call, monotonic] }
      eventually { !thread.alive? || refused > before }
    end
    broken, at = thread.value
    expect(broken).to be(true)
    at
  end

  def expect_news(since)
    expect(eventually(5) { !told.empty? && told.pop } - since).to be < 0.5
  end

  %i[lock companion].each do |part|
    context "which is the #{part}" do
      it "tells the holder, and frees the lock" do
        lease = store.acquire(key, **watched)
        expect_news(break_meanwhile(lease, part) { patient.break(key) })
        expect([lease.lost?, lease.release]).to eq([true, false])
        expect(patient.try_acquire(key) { :entered }).to eq(:entered)
      end

      it "finds the holder of a status" do
        lease = store.acquire(key, **watched)
        status = patient.status(key)
        expect_news(break_meanwhile(lease, part) { patient.break(status) })
        expect(lease).to be_lost
      end

      it "tells the holder of a permit" do
        semaphore = patient.semaphore(key, permits: 1)
        lease = store.semaphore(key, permits: 1).acquire(**watched)
        expect_news(break_meanwhile(lease, part) { semaphore.break })
        expect(lease).to be_lost
        expect(semaphore.try_acquire { :entered }).to eq(:entered)
      end

      it "tells all readers" do
        leases = Array.new(2) do
          background { store.read_write_lock(key).read(**watched) }.value
        end
        at = break_meanwhile(leases.first, part) { patient.read_write_lock(key).break }
        2.times { expect_news(at) }
        expect(leases).to all(be_lost)
      end

      it "lets one waiter in" do
        lease = store.acquire(key, **watched)
        inside = Queue.new
        over = Queue.new
        waiters = Array.new(2) do |number|
          wait_in_line(number + 1) do
            patient.acquire(key, wait: 30) { (inside << number) && over.pop }
          end
        end
        expect_news(break_meanwhile(lease, part) { patient.break(key) })
        first = inside.pop
        expect([patient.status(key).held?, inside.size, first]).to eq([true, 0, first])
        2.times { over << true }
        waiters.each(&:join)
        expect(patient.status(key)).not_to be_held
      end

      # The holder receives no message, but its next renewal finds the loss.
      it "frees the lock in time, though the move stays half done" do
        lease = store.acquire(key, **watched, ttl: 3)
        shares = store.semaphore("#{key}:shares", permits: 1)
        permit = shares.acquire(**watched, ttl: 3)
        { lease => -> { store.break(key) }, permit => -> { shares.break } }.each do |held, breaks|
          move_half(held, part) do
            started = monotonic
            expect(breaks.call).to be(true)
            expect(monotonic - started).to be < 0.5
            eventually(5) { !told.empty? && told.pop }
            expect(held).to be_lost
          end
        end
        expect([store.try_acquire(key) { 1 }, shares.try_acquire { 2 }]).to eq([1, 2])
      end

      it "does not say of the holder of a status that it has none, though it cannot be compared" do
        lease = store.acquire(key, **watched)
        status = store.status(key)
        move_half(lease, part) do
          expect { store.break(status) }.to raise_error(Plock::UnavailableError, /cluster/)
        end
        expect([lease.extend.valid?, told.empty?]).to eq([true, true])
        expect(store.break(status)).to be(true)
      end
    end
  end
end
