# frozen_string_literal: true

require "spec_helper"
require "support/scripts"

# Calls these scripts in an order that rarely occurs.
RSpec.describe "The scripts of locks with several holders" do
  let(:server) { shared_redis }
  # other programs expect this suffix when they list locks
  let(:scripts) do
    Support::Scripts.new(server.client, "#{unique_key}#{Plock::Locking::Kind::READ_WRITE.suffix}")
  end

  def one(share, **options) = Support::Sharer.new(scripts, share, **options)

  def listening(share, **options) = discard(one(share, **options).listen(server), :close)

  def inside(share, **options) =
    one(share, **options).tap { |sharer| expect(sharer.ask).to be true }

  # The server's time in milliseconds.
  def milliseconds
    seconds, micros = server.call("TIME").map(&:to_i)
    (seconds * 1_000) + (micros / 1_000)
  end

  it "admit a waiter that asks while it reconnects: its turn had been announced" do
    first = inside("s2")
    second = inside("s2")
    waiting = listening("s2")
    waiting.queue
    expect([first, second].map(&:release)).to eq [2, 1]
    expect(waiting.hears).to eq "+"
    expect(waiting.ask).to be true
    expect(one("s2").ask).to be true # the waiter has one place, not two
    expect(one("s2").ask).to be_an(Integer)
  end

  it "make a waiter that only the first in the queue keeps out look again in a second" do
    inside("r")
    writer = listening("w")
    expect(writer.queue).to be_within(1_000).of(60_000)
    reader = listening("r")
    expect(reader.queue).to be <= 1_000
    writer.die
    expect(reader.queue).to be true
  end

  it "tell the first two waiters how long a place is kept, for the first may be frozen" do
    holder = inside("w")
    waiting = Array.new(3) { listening("w").tap(&:queue) }
    holder.release(keep: 5_000)
    expect(waiting.first(2).map(&:hears)).to eq %w[~5000 ~5000]
  end

  it "tell the first two waiters when a waiter before them that was told leaves" do
    inside("w", ttl: 5_000)
    leaving, *waiting = Array.new(3) { listening("w").tap(&:queue) }
    leaving.leave
    expect(waiting.map(&:hears)).to all match(/\A~[45]\d\d\d\z/)
  end

  it "release a share of a client that knows it to be valid, from any place among the holders" do
    alone = inside("s2")
    expect([alone.release_held, alone.release_held]).to eq [1, 0]
    first = inside("s2")
    expect(server.call("HLEN", scripts.companion)).to eq 2 # the fence, and the holder
    second = inside("s2")
    expect(second.release_held).to eq 1
    expect(server.call("HLEN", scripts.companion)).to eq 2
    inside("s2")
    waiting = listening("s2")
    waiting.queue
    expect(first.release_held).to eq 2
    expect(waiting.hears).to eq "+"
    expect([first.release_held, waiting.ask]).to eq [0, true]
  end

  it "do not release a share whose lease is over, whether its place is there still or not" do
    late = inside("r", ttl: 20)
    inside("r")
    ends = server.call("ZSCORE", scripts.lock, late.value).to_i
    eventually { milliseconds > ends }
    expect([late.release, late.release]).to eq [0, 0]
  end

  it "let a companion that was evicted, and that a downgrade makes again, expire" do
    writer = inside("w")
    server.call("DEL", scripts.companion)
    expect(writer.downgrade).to eq 1
    expect(server.call("PTTL", scripts.companion)).to be > 60_000
  end

  it "forget a holder whose lease has expired, even if no caller has looked since" do
    5.times do
      inside("s2", ttl: 20)
      eventually(2.0, "a lease does not end") { server.call("EXISTS", scripts.lock).zero? }
    end
    inside("s2")
    expect(server.call("HLEN", scripts.companion)).to eq 2 # the fence, and the holder
  end
end
