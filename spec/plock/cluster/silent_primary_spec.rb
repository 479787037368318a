# frozen_string_literal: true

require "spec_helper"
require "support/cluster"
require "support/store_contract"

# If a primary is stopped, nothing closes its connections, so only a call can notice the failover.
# Renewals cannot notice it here, because the next renewal is due only after 20 s.
RSpec.describe "A lease on a Redis Cluster whose primary is silent", :slow, :alone,
               needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  let!(:cluster) { discard(Support::Cluster.new(failover: true), :stop) }
  let(:store) { used(open_store(cluster.url, unavailable_timeout: 30)) }
  let(:names) { cluster.spread("silent:#{SecureRandom.hex(8)}", each: 2) }
  let(:key) { names[0] }
  let(:other) { names[3] } # on the same primary, in another slot
  let(:lock) { store.status(key).store_key }
  let(:slot) { cluster.slot(lock) }
  let(:primary) { cluster.owner_of(slot) }
  let(:lost) { Queue.new }

  # Acquires a lease, and waits for its first renewal, which comes as soon as the channel opens.
  # The second renewal is due only after a third of the ttl.
  def hold
    renewed = Queue.new
    subscription = Plock.subscribe(:renew) { renewed << true }
    store.acquire(key, ttl: 60, renew: true, on_lost: ->(_) { lost << monotonic })
         .tap { eventually { !renewed.empty? } }
  ensure
    Plock.unsubscribe(subscription)
  end

  # Acquires a lease, stops its primary, and waits until all nodes know the new primary. Deletes the
  # lock on the new primary, so that the lease is lost.
  def hold_and_fail_over
    store.acquire(other) { nil }
    lease = hold
    Support::Replication.await(primary, 1)
    primary.stop_process
    cluster.await_another(primary, slot).call("DEL", lock)
    lease
  end

  # The call for another key notices the failover.
  def expect_loss_within_a_second(lease)
    expect(store.acquire(other, wait: 20) { :entered }).to eq(:entered)
    known_at = monotonic
    eventually(5.0) { !lost.empty? }
    expect(lost.pop - known_at).to be < 1.0
    expect([lease.lost?, lease.valid?]).to eq([true, false])
  end

  it "is lost within a second of a call that finds the new primary" do
    expect_loss_within_a_second(hold_and_fail_over)
  ensure
    primary.continue_process
  end

  it "is lost within a second of a call that the old one, a replica now, sends elsewhere" do
    lease = hold_and_fail_over
    primary.continue_process
    cluster.await { primary.call("ROLE").first == "slave" }
    expect(lost).to be_empty
    expect_loss_within_a_second(lease)
  end
end
