# frozen_string_literal: true

require "spec_helper"
require "support/store_contract"

# Two sentinels watch the primary. The third sentinel gives a different answer.
RSpec.describe "A store of which a sentinel names something else", :slow,
               needs: Support::RedisServer::PROGRAM do
  include Support::StoreContract

  let(:primary) { redis_server }
  let(:other) { redis_server }
  let(:key) { "disagreement:#{SecureRandom.hex(8)}" }

  def sentinel(host, server, config = {}) =
    redis_server(:sentinel, monitor: ["main", host, server.port.to_s, "1"], config: config)

  def channels =
    primary.call("CLIENT", "LIST").lines.grep(/name=plock-.* sub=1 /).map { |line|
 line[/\Aid=\d+/] }

  def listens?(to) = to.call("CLIENT", "LIST").match?(/name=plock-.* sub=1 /)

  # Expects that the store's channel stays open while the store twice listens to the odd sentinel.
  def expect_channel_to_stay(odd)
    places = [sentinel("127.0.0.1", primary), odd, sentinel("127.0.0.1", primary)]
    url = "redis+sentinel://#{places.map { |one| "127.0.0.1:#{one.port}" }.join(",")}/main?" \
          "connect_timeout=10"
    lease = used(open_store(url)).acquire(key, ttl: 60, renew: true)
    eventually { channels.size == 1 }
    before = channels
    2.times do
      eventually(10.0) { listens?(odd) }
      eventually(10.0) { !listens?(odd) }
    end
    expect(channels).to eq(before)
    expect(lease.release).to be(true)
  end

  it "keeps its connections, if it is the same server by another name" do
    settings = { "sentinel resolve-hostnames" => "yes", "sentinel announce-hostnames" => "yes" }
    expect_channel_to_stay(sentinel("localhost", primary, settings))
  end

  it "keeps its connections, if most of them name the old server" do
    expect_channel_to_stay(sentinel("127.0.0.1", other))
  end
end
