# frozen_string_literal: true

require "spec_helper"
require "support/busy_ruby"

# Native code claims a turn. So the claim does not wait for Ruby, and no other waiter gets the
# turn.
RSpec.describe "A turn that comes while Ruby is busy", :timing do
  include Support::BusyRuby

  ttl = 0.5
  let(:server) { redis_server }
  let(:key) { unique_key }
  let(:store) { open_store(server.url) }

  def seconds = Process.clock_gettime(Process::CLOCK_REALTIME)

  def waiting(count) = eventually { store.status(key).waiters.size == count }

  # A process that releases its lease a moment after the example tells it to. By the time of the
  # release, Ruby is busy in this process.
  def holder
    child do |parent|
      lease = Plock::Store.open(server.url).acquire(key, ttl: 30)
      parent.tell(:holds)
      parent.hear
      sleep 0.2
      released = seconds
      lease.release
      released
    end
  end

  def follower
    child { Plock::Store.open(server.url).acquire(key, ttl: 5, wait: 25, &:fence) }
  end

  [1, 3].each do |threads|
    it "is not lost, with #{threads} of its threads waiting", *(:slow if threads == 1) do
      [server, key] # all processes must use the same ones
      leaving = holder
      leaving.hear
      ours = Array.new(threads) { |number| background { serve }.tap { waiting(number + 1) } }
      theirs = follower
      waiting(threads + 1)
      leaving.tell(:leave)
      busy_until = longest_silence { hold_gvl(3 * ttl) }
      fences = ours.map { |thread| thread.value.first }
      expect(busy_until).to be > 3 * ttl
      in_turn = [*fences, theirs.result]
      expect(in_turn).to eq in_turn.sort
      expect(ours.map { |thread| thread.value.last }).to all be(true)
      # the fence is the server's time in microseconds
      expect((fences.first / 1_000_000.0) - leaving.result).to be_between(0, 0.3)
    end
  end

  def serve =
    store.acquire(key, ttl: 0.5, wait: 25, renew: true) { |lease| [lease.fence, lease.valid?] }
end
