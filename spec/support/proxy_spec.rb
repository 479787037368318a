# frozen_string_literal: true

require "spec_helper"

RSpec.describe Support::Proxy do
  subject(:gate) { proxy }

  let(:redis) do
    RedisClient.config(url: gate.url, timeout: 0.2, reconnect_attempts: 0, protocol: 2).new_client
               .tap { |client| discard(client, :close) }
  end
  let(:key) { "proxy-#{SecureRandom.hex(8)}" }

  before { redis.call("PING") }

  def hear_nothing = raise_error(RedisClient::ReadTimeoutError)

  it "passes bytes both ways and shows them" do
    expect(redis.call("ECHO", "hello")).to eq("hello")
    gate.await(:request, "hello")
    gate.await(:reply, "hello")
    expect(gate.accepted).to eq(1)
  end

  it "swallows replies, which the server does not notice" do
    gate.swallow(:reply)
    expect { redis.call("SET", key, "1") }.to hear_nothing
    expect(shared_redis.call("GET", key)).to eq("1")
  end

  it "swallows requests, of which the server never hears" do
    gate.swallow(:request)
    expect { redis.call("SET", key, "1") }.to hear_nothing
    expect(shared_redis.call("GET", key)).to be_nil
  end

  it "swallows at once what an idle connection is sent" do
    settings = { url: gate.url, timeout: 0.2, reconnect_attempts: 0 }
    reader = RedisClient.config(**settings).new_client.pubsub
    discard(reader, :close)
    reader.call("SUBSCRIBE", key)
    expect(reader.next_event(1)).to eq ["subscribe", key, 1]
    gate.swallow_all(:reply)
    shared_redis.call("PUBLISH", key, "unheard")
    gate.await(:reply, "unheard")
    expect(reader.next_event(0.1)).to be_nil
  end

  it "troubles only as many connections as asked, and only after the text" do
    gate.swallow(:reply, connections: 1, after: "SET")
    expect(redis.call("PING")).to eq("PONG")
    expect { redis.call("SET", key, "1") }.to hear_nothing
    expect(redis.call("SET", key, "2")).to eq("OK") # on a new connection
  end

  it "cuts after that many bytes" do
    gate.cut(:reply, after_bytes: 3)
    expect { redis.call("PING") }.to raise_error(RedisClient::ConnectionError)
    gate.await_open(0)
    expect(gate.seen(:reply)).to end_with("+PONG\r\n")
  end

  it "holds bytes back until it is cleared" do
    gate.hold(:reply)
    answer = background { redis.call("ECHO", "held") }
    gate.await(:reply, "held")
    expect(answer).to be_alive
    gate.clear
    expect(answer.value).to eq("held")
  end

  it "delays and dribbles", :timing do
    gate.delay(:reply, 0.05)
    expect(elapsed { redis.call("PING") }).to be >= 0.05
    gate.clear
    gate.dribble(:reply, 0.01)
    within(0.15, least: 0.06) { redis.call("PING") }
  end

  it "replaces a reply" do
    gate.replace("+NO\r\n")
    expect(redis.call("PING")).to eq("NO")
  end

  it "refuses, is silent, and forwards again on the same port" do
    gate.refuse
    gate.disconnect
    expect { redis.call("PING") }.to raise_error(RedisClient::ConnectionError)
    expect { redis.call("PING") }.to raise_error(RedisClient::Error, /refused/)
    gate.silent
    expect { redis.call("PING") }.to raise_error(RedisClient::Error, /Waited/)
    gate.forward
    expect(redis.call("PING")).to eq("PONG")
  end

  it "leads elsewhere when told to" do
    other = redis_server
    other.call("SET", key, "there")
    gate.upstream = other
    gate.disconnect
    begin
      redis.call("PING")
    rescue RedisClient::ConnectionError
      nil # the proxy has cut this connection
    end
    expect(redis.call("GET", key)).to eq("there")
  end
end
