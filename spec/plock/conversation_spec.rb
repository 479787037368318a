# frozen_string_literal: true

require "spec_helper"

# Sends plain commands to the server, for plock doctor.
RSpec.describe "Plock::Store::Conversation", :no_leaks, needs: "redis-server" do
  let(:store) { open_store }
  let(:conversation) { converse(store) }

  def converse(store) = discard(store.converse, :close)

  def ask(*words) = conversation.ask(words)

  it "answers as the server does" do
    key = unique_key
    expect(ask("PING")).to eq "PONG"
    expect(ask("GET", key)).to be_nil
    expect(ask("INCR", key)).to eq 1
    expect(ask("CONFIG", "GET", "maxmemory")).to eq %w[maxmemory 0]
    expect(ask("EVAL", "return {1, {'a', {}}, false, {ok = 'b'}}", "0")).to eq [
      1,
      ["a", []],
      nil,
      "b"
    ]
    expect(ask("INFO", "server")).to match(/^redis_version:/).and have_attributes(
      encoding: Encoding::UTF_8
    )
    shared_redis.call("DEL", key)
  end

  it "raises the server's error replies, and goes on" do
    expect { ask("NONSENSE") }.to raise_error(Plock::UnavailableError, /unknown command/) { |e|
      expect(e.code).to eq :server
    }
    expect(ask("PING")).to eq "PONG"
  end

  it "raises the same errors as a lock if it cannot connect or log in" do
    expect { converse(open_store("redis://127.0.0.1:1")).ask(%w[PING]) }.to raise_error(
      Plock::UnavailableError
    )
    server = redis_server(:password)
    expect { converse(open_store(server.url(password: "wrong"))).ask(%w[PING]) }.to raise_error(
      Plock::AuthenticationError
    )
  end

  it "accepts only words" do
    expect { conversation.ask([]) }.to raise_error(ArgumentError)
    expect { conversation.ask(["PING"] * 12) }.to raise_error(ArgumentError)
    expect { conversation.ask("PING") }.to raise_error(TypeError)
    expect(ask(:PING, 7)).to eq "7"
    expect { Plock::Store::Conversation.new }.to raise_error(NoMethodError)
  end

  it "can be interrupted, and asked again" do
    server = redis_server
    asking = converse(open_store(server.unix_url, command_timeout: 30))
    expect(asking.ask(["PING"])).to eq "PONG"
    server.stop_process
    expect { Timeout.timeout(0.05) { asking.ask(["PING"]) } }.to raise_error(Timeout::Error)
    server.continue_process
    expect(asking.ask(%w[PING again])).to eq "again"
  end

  it "lets other threads run meanwhile" do
    server = redis_server
    asking = converse(open_store(server.unix_url, command_timeout: 30))
    server.stop_process
    thread = background { asking.ask(["PING"]) }
    await_sleep(thread)
    server.continue_process
    expect(thread.value).to eq "PONG"
  end

  it "has a connection of its own in a forked child" do
    expect(ask("PING")).to eq "PONG"
    expect(in_child { ask("PING", "child") }).to eq "child"
    expect(ask("PING")).to eq "PONG"
  end

  it "outlives its store's object" do
    lone = converse(Plock::Store.open(shared_redis.unix_url))
    GC.start
    expect(lone.ask(["PING"])).to eq "PONG"
  end
end
