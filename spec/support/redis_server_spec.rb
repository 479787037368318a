# frozen_string_literal: true

require "spec_helper"

RSpec.describe Support::RedisServer do
  def refusal(server, *command)
    server.call(*command)
  rescue RedisClient::Error => e # ReadOnlyError is not a subclass of CommandError
    e.message
  end

  it "answers over TCP and over its Unix socket" do
    server = redis_server
    over_tcp = RedisClient.config(url: server.url).new_client
    over_tcp.call("SET", "plock", "1")
    expect(server.call("GET", "plock")).to eq("1")
    over_tcp.close
  end

  it "is shared between examples when plain" do
    expect(shared_redis).to equal(shared_redis)
    expect(shared_redis.call("PING")).to eq("PONG")
  end

  it "keeps its port over a restart, and its data with save:" do
    server = redis_server
    port = server.port
    server.call("SET", "plock", "1")
    server.restart(save: true)
    expect([server.port, server.call("GET", "plock")]).to eq([port, "1"])
  end

  it "keeps its port from others while it is down" do
    skip "two sockets cannot be bound to one port" unless RUBY_PLATFORM.include?("linux")
    server = redis_server
    server.kill
    socket = discard(Socket.new(:INET, :STREAM), :close)
    expect { socket.bind(Addrinfo.tcp("127.0.0.1", server.port)) }.to raise_error(Errno::EADDRINUSE)
    expect(server.restart.call("PING")).to eq "PONG"
  end

  it "stands still and goes on" do
    server = redis_server
    probe = RedisClient.config(url: server.url, timeout: 0.05, reconnect_attempts: 0).new_client
    server.stop_process
    expect { probe.call("PING") }.to raise_error(RedisClient::Error, /Waited/)
    server.continue_process
    expect(server.call("PING")).to eq("PONG")
    probe.close
  end

  it "asks for a password" do
    server = redis_server(:password)
    stranger = RedisClient.config(path: server.unix_path, protocol: 2).new_client
    expect { stranger.call("GET", "x") }.to raise_error(RedisClient::CommandError, /NOAUTH/)
    stranger.close
    known = RedisClient.config(url: server.url(password: described_class::PASSWORD)).new_client
    expect(known.call("PING")).to eq("PONG")
    known.close
  end

  it "has a user who may only read" do
    server = redis_server(:acl)
    reader = RedisClient.config(path: server.unix_path, username: described_class::READER,
                                password: described_class::ACL_PASSWORD).new_client
    expect { reader.call("SET", "x", "1") }.to raise_error(RedisClient::PermissionError)
    reader.close
  end

  it "refuses in its own way: read-only replica, cluster nodes, no memory" do
    {
      replica: /READONLY/, cluster: /CLUSTERDOWN/, moved: /MOVED \d+ #{described_class::MOVED_TO}/,
      full: /OOM/
    }.each do |kind, answer|
      expect(refusal(redis_server(kind), "SET", "plock", "1")).to match(answer)
    end
  end

  it "can be a Sentinel, which keeps nothing" do
    expect(refusal(redis_server(:sentinel), "SET", "plock", "1")).to match(/unknown command/)
  end

  it "speaks TLS and asks for a client certificate when told to" do
    server = redis_server(:tls, client_auth: true)
    ca = Support::Certificates.ca.cert_file
    client = Support::Certificates.client
    attempt = ->(**params) do
      RedisClient
        .config(
          url: server.url,
          ssl: true,
          ssl_params: {
            ca_file: ca, **params
          },
          reconnect_attempts: 0
        )
        .new_client
        .then { |redis| redis.call("PING").tap { redis.close } }
    end
    expect(attempt.call(cert: client.cert_file, key: client.key_file)).to eq("PONG")
    expect { attempt.call }.to raise_error(RedisClient::ConnectionError)
  end
end
