# frozen_string_literal: true

require "spec_helper"
require "support/scripts"

# What the scripts of locks with several holders do where their calls meet in an order that is rare.
RSpec.describe "The scripts of locks with several holders" do
  let(:server) { shared_redis }
  # as others who list locks expect
  let(:scripts) do
    Support::Scripts.new(server.client, "#{unique_key}#{Plock::Locking::Kind::READ_WRITE.suffix}")
  end

  def one(share, **options) = Support::Sharer.new(scripts, share, **options)

  def listening(share, **options) = discard(one(share, **options).listen(server), :close)

  def inside(share, **options) =
    one(share, **options).tap { |sharer| expect(sharer.ask).to be true }

  it "let one who asks while his connection is being made again in by the place to which he was called" do
    first = inside("s2")
    second = inside("s2")
    waiting = listening("s2")
    waiting.queue
    expect([first, second].map(&:release)).to eq [2, 1]
    expect(waiting.hears).to eq "+"
    expect(waiting.ask).to be true
    expect(one("s2").ask).to be true # he took one place, not two
    expect(one("s2").ask).to be_an(Integer)
  end

  it "have one who is kept out by nobody but the first in line look again in a second" do
    inside("r")
    writer = listening("w")
    expect(writer.queue).to be_within(1_000).of(60_000)
    reader = listening("r")
    expect(reader.queue).to be <= 1_000
    writer.die
    expect(reader.queue).to be true
  end

  it "tell the first two in line how long a place is kept, for the first may be frozen" do
    holder = inside("w")
    waiting = Array.new(3) { listening("w").tap(&:queue) }
    holder.release(keep: 5_000)
    expect(waiting.first(2).map(&:hears)).to eq %w[~5000 ~5000]
  end

  it "tell the first two in line when one before them leaves who was told" do
    inside("w", ttl: 5_000)
    leaving, *waiting = Array.new(3) { listening("w").tap(&:queue) }
    leaving.leave
    expect(waiting.map(&:hears)).to all match(/\A~[45]\d\d\d\z/)
  end

  it "forget who was inside when his time was over, though nobody came to see it" do
    5.times do
      inside("s2", ttl: 20)
      eventually(2.0, "a lease does not end") { server.call("EXISTS", scripts.keys.first).zero? }
    end
    inside("s2")
    expect(server.call("HLEN", scripts.keys[1])).to eq 2 # the fence, and the one who is inside
  end
end
