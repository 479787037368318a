# frozen_string_literal: true

require "spec_helper"
require "support/sentinels"
require "support/store_contract"

# Three sentinels watch a primary and two replicas. All of them run when an example begins.
RSpec.describe "A store that sentinels name", :slow, :alone, needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  let!(:group) { discard(Support::Sentinels.new, :stop) }
  let(:store) { used(open_store(group.url, unavailable_timeout: 30)) }
  let!(:key) { "failover:#{SecureRandom.hex(8)}" }

  # Waits until both replicas have all the primary's data.
  def replicate = Support::Replication.await(group.primary, 2)

  # Waits until the store uses this server. Clients are the last to learn of a failover. Until they
  # do, the old primary serves them.
  def await_move_to(server)
    eventually(15.0, "the store did not move") do
      server.call("CLIENT", "LIST").include?("name=plock-")
    end
  end

  it "keeps a lease that the new primary knows, and renews it there" do
    lease = store.acquire(key, ttl: 10, wait: 5, renew: true)
    store_key = store.status(key).store_key
    replicate
    await_move_to(after = group.fail_over)
    expect(lease.extend).to be(lease)
    expect([lease.valid?, lease.lost?]).to eq([true, false])
    expect(after.call("PTTL", store_key)).to be > 8_000
    expect(lease.release).to be(true)
    expect(after.call("EXISTS", store_key)).to eq(0)
  end

  it "tells within a second of the failover that a lease is lost which the new primary lacks" do
    lost_at = nil
    note = ->(_) { lost_at = monotonic }
    lease = store.acquire(key, ttl: 60, wait: 5, renew: true, on_lost: note)
    expect(lease).to be_valid
    before = group.primary
    forget = store.status(key).store_key
    after = group.fail_over
    after.call("DEL", forget)
    await_move_to(after)
    moved_at = monotonic
    eventually(5.0) { lost_at }
    expect(lost_at - moved_at).to be < 1.0
    expect([lease.lost?, lease.valid?]).to eq([true, false])
    expect(group.primary).not_to eq(before)
  end

  [true, false].each do |open|
    it "takes no lease from a primary that it left while it #{open ? "asked" : "connected"}" do
      patient = { attempt_timeout: 20, command_timeout: 20, connect_timeout: 20 }
      slow = used(open_store(group.url, **patient))
      slow.acquire(key) { nil } if open
      # makes the first call of `store` now, because a first call does not wait for a failover
      store.acquire(key) { nil }
      (before = group.primary).stop_process
      late = background { slow.acquire(key, wait: 0) }
      eventually { slow.pool_status.used == 1 }
      group.await_another(before)
      held = store.acquire(key, ttl: 60, wait: 5)
      slow.acquire("#{key}:other") { nil } # uses a connection to the new primary
      before.continue_process
      expect { late.value }.to raise_error(Plock::TimeoutError)
      expect([held.valid?, held.release]).to eq([true, true])
    end
  end

  it "keeps a lease that the replicas have confirmed" do
    store = used(open_store(group.url, replicas: 2, unavailable_timeout: 30))
    store_key = store.status(key).store_key
    replicas = group.servers - [before = group.primary]
    replicas.each(&:stop_process)
    holder = background { store.acquire(key, ttl: 60, wait: 20) }
    eventually { before.call("CLIENT", "LIST").include?("cmd=wait") }
    replicas.each(&:continue_process)
    lease = holder.value
    before.kill
    after = group.await_another(before)
    expect(after.call("EXISTS", store_key)).to eq(1)
    expect { open_store(group.url).acquire(key, ttl: 60, wait: 1) }
      .to raise_error(Plock::TimeoutError)
    expect([lease.valid?, lease.release]).to eq([true, true])
  end

  it "grants nothing at a primary that is cut off from its replicas" do
    group.admit(before = group.primary)
    store = used(open_store(before.url(user: "plock", password: "pw"), replicas: 1, wait: 0))
    expect(store.acquire(key, ttl: 30) { :ran }).to eq(:ran)
    group.cut_off(before)
    eventually(10.0) do
      store.acquire("another key", ttl: 30, &:release) && false
    rescue Plock::UnavailableError => e
      e.code == :unreplicated
    end
    expect { store.acquire(key, ttl: 30) }
      .to raise_error(an_object_having_attributes(code: :unreplicated))
  end

  it "serves again after its primary was killed" do
    fences = [store.acquire(key, &:fence)]
    replicate
    group.primary.kill
    fences << store.acquire(key, wait: 30, &:fence)
    expect(fences).to eq(fences.sort.uniq)
  end

  # If a primary is stopped, nothing closes its connections. So the store learns of the failover
  # only from the sentinels.
  it "leaves a primary that is stopped, and finds the one that comes after it" do
    told = Queue.new
    lease = store.acquire(key, ttl: 60, wait: 5, renew: true, on_lost: ->(_) { told << :lost })
    replicate
    before = group.primary
    before.stop_process
    group.await { group.primary != before }
    await_move_to(group.primary)
    expect(lease.extend).to be(lease)
    expect(store.status(key)).to be_held
    expect(told).to be_empty
    before.continue_process
    group.await { before.call("ROLE").first == "slave" }
    expect(lease.release).to be(true)
    expect(store.acquire(key, wait: 5) { :entered }).to eq(:entered)
  end

  it "serves 50 waiters in their order, within a second of the new primary" do
    holder = store.acquire(key, ttl: 30, wait: 5)
    order = Queue.new
    waiters = Array.new(50) do |number|
      wait_in_line(number + 1) { store.acquire(key, wait: 60) { order << [number, monotonic] } }
    end
    replicate
    await_move_to(group.fail_over)
    served_from = monotonic
    expect(holder.release).to be(true)
    waiters.each { |waiter| waiter.join(30) }
    entered = Array.new(order.size) { order.pop }
    expect(entered.map(&:first)).to eq((0...50).to_a)
    expect(entered.first.last - served_from).to be < 1.0
  end

  # A store whose user can log in on all servers. After cut_off, the sentinels cannot log in on one
  # server, but this store still can.
  def store_of_a_user
    group.servers.each { |one| group.admit(one) }
    used(open_store(group.url(user: "plock:pw"), unavailable_timeout: 30))
  end

  it "leaves a primary that only the others have lost, though the first sentinel is silent" do
    store = store_of_a_user
    store.acquire(key) { nil }
    before = group.primary
    group.sentinels.first.stop_process
    group.cut_off(before)
    seen = -> { group.sentinels[1].call("SENTINEL", "get-master-addr-by-name", "main")[1].to_i }
    group.await { seen.call != before.port }
    after = group.servers.find { |server| server.port == seen.call }
    named_at = monotonic
    # if a lease is held during the move, it is lost, which causes a warning
    warnings { store.acquire(key, ttl: 0.2, wait: 5) { nil } until served_by?(after) }
    expect(monotonic - named_at).to be < 6.0
    expect(before.call("ROLE").first).to eq("master")
  ensure
    group.sentinels.first.continue_process
  end

  def served_by?(server) = server.call("CLIENT", "LIST").include?("name=plock-")

  # Deletes the key on the new primary before the sentinels name that primary, and so before the
  # store checks its lease there.
  def forget_at_promotion(store_key, replicas)
    group.await do
      after = replicas.find { |server| server.call("ROLE").first == "master" }
      after&.call("DEL", store_key)
    end
  end

  # Calls for other keys find the new primary before a sentinel names it. The store must then check
  # all its leases on that primary.
  it "checks its leases at the primary that another call has found" do
    store = store_of_a_user
    told = Queue.new
    lease = store.acquire(key, ttl: 60, wait: 5, on_lost: ->(_) { told << :lost })
    store_key = store.status(key).store_key
    before = group.primary
    group.cut_off(before)
    forget_at_promotion(store_key, group.servers - [before])
    warnings do
      threads = Array.new(4) do |number|
        background { 200.times { store.acquire("#{key}:#{number}", ttl: 1, wait: 5) { nil } } }
      end
      eventually(10.0) { !told.empty? }
      threads.each(&:kill).each(&:join)
    end
    expect([lease.lost?, lease.valid?]).to eq([true, false])
  end

  def channels(server) =
    server.call("CLIENT", "LIST").lines.grep(/name=plock-.* sub=1 /).map { |line| line[/\Aid=\d+/] }

  # While a channel is being reopened, no message reaches the waiters, and one of them may lose its
  # turn. So the store must not reopen the channel without need.
  it "keeps its channel if a call falls silent, but no sentinel names another primary" do
    lease = store.acquire(key, ttl: 60, renew: true)
    eventually { channels(group.primary).size == 1 }
    before = channels(group.primary)
    store.try_acquire("#{key}:other", ttl: 5).release # leaves an idle connection for the next call
    group.primary.stop_process
    expect { store.try_acquire("#{key}:other", ttl: 5) }.to raise_error(Plock::UnavailableError)
    group.primary.continue_process
    expect(store.try_acquire(key, wait: 1)).to be_nil # has the coordinator check the channel
    expect(channels(group.primary)).to eq(before)
    expect(lease.release).to be(true)
  end

  it "gives up in its time if no primary is left" do
    impatient = used(open_store(group.url, unavailable_timeout: 1))
    group.servers.each(&:kill)
    took = elapsed do
      expect { impatient.acquire(key, wait: 20) { nil } }.to raise_error(Plock::UnavailableError)
    end
    expect(took).to be < 3.0
  end

  it "needs only one of the sentinels, whether the others are away or silent" do
    group.sentinels[0].kill
    group.sentinels[1].stop_process
    fresh = open_store(group.url)
    expect(fresh.acquire(key, wait: 2) { :entered }).to eq(:entered)
  ensure
    group.sentinels[1].continue_process
  end

  it "closes its connections to the sentinels when nothing is held or awaited" do
    store.acquire(key, ttl: 3, renew: true) { |lease| lease.extend }
    store.close
    eventually(10.0) do
      group.sentinels.none? { |one| one.call("CLIENT", "LIST").include?("name=plock-") }
    end
  end

  context "without a failover" do
    let!(:group) { discard(Support::Sentinels.new(failover: false), :stop) }

    def message_of(&block)
      expect(&block).to raise_error(Plock::UnavailableError) { |raised| return raised.message }
    end

    it "names the primary that refuses, or falls silent" do
      lease = discard(store.acquire(key, ttl: 60, wait: 5), :release)
      named = "/main: primary 127.0.0.1:#{(primary = group.primary).port}: "
      primary.call("CONFIG", "SET", "min-replicas-to-write", "3")
      expect(message_of { lease.extend }).to include("#{named}the server accepts no writes")
      primary.call("CONFIG", "SET", "min-replicas-to-write", "0")
      primary.stop_process
      expect(message_of { lease.extend }).to include(named)
      expect(message_of { store.acquire("#{key}:other", wait: 0) }).to include(named)
      primary.continue_process
    end
  end
end
