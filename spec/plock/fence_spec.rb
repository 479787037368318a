# frozen_string_literal: true

require "spec_helper"

# Each lease of a key has a greater number than all before it, whatever becomes of what the server remembers.
RSpec.describe "The fence" do
  let(:server) { redis_server }
  let(:store) { open_store(server.url) }
  let(:key) { unique_key }
  let(:lock) { store.acquire(key, &:store_key) }

  def fence(**options) = store.acquire(key, **options, &:fence)

  def companion = "plock:1:{#{lock}}:fence"

  # What the fences are around something that happens to the server.
  def around
    before = fence
    yield
    [before, fence, fence]
  end

  # Strictly.
  def grow = satisfy("grow") { |fences| fences.each_cons(2).all? { |earlier, later| earlier < later } }

  it "grows from lease to lease" do
    expect(Array.new(50) { fence }).to grow
  end

  it "grows when a lease has expired" do
    first = store.acquire(key, ttl: 0.05)
    expect([first.fence, fence(wait: 5)]).to grow
    expect(first).to be_lost
  end

  it "grows when a lease was broken" do
    first = store.acquire(key)
    store.break(key)
    expect([first.fence, fence]).to grow
    expect(first.release).to be false
  end

  it "grows when the server has been emptied" do
    expect(around { server.call("FLUSHALL") }).to grow
  end

  it "grows when the server has evicted what was noted" do
    lock
    expect(around { server.call("DEL", companion) }).to grow
  end

  it "grows when the server has been restarted, and remembers nothing" do
    expect(around { server.restart }).to grow
  end

  it "grows when the server's clock has been set back" do
    lock
    ahead = 100_000_000_000 # microseconds: more than a day
    expect(around do
      number, rest = server.call("GET", companion).split(" ", 2)
      server.call("SET", companion, "#{number.to_i + ahead} #{rest}", "PX", 86_400_000) # written when it was ahead
    end).to grow.and(satisfy { |first, second, _| second > first + ahead })
  end

  it "does not go on for ever: what is noted of a key goes after a day" do
    lock
    expect(server.call("PTTL", companion)).to be_between(86_000_000, 86_400_000)
  end
end
