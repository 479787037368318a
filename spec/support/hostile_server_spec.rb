# frozen_string_literal: true

require "spec_helper"

RSpec.describe Support::HostileServer do
  def talk(server, bytes = "PING\r\n")
    Socket.tcp("127.0.0.1", server.port) do |socket|
      socket.write(bytes)
      yield socket
    end
  end

  it "answers what its script says" do
    talk(hostile_server(:huge_array)) do |socket|
      expect(socket.readpartial(64)).to eq("*2147483647\r\n")
    end
    talk(hostile_server(:closes_in_reply)) { |socket| expect(socket.read).to eq("*3\r\n$3\r\nab") }
    talk(hostile_server([[:read], [:write, "own"]])) { |socket| expect(socket.read).to eq("own") }
  end

  it "accepts and is silent, and remembers what it was told" do
    server = hostile_server(:silent)
    talk(server) do |socket|
      eventually { server.received == "PING\r\n" }
      expect(socket.wait_readable(0.02)).to be_nil
      expect(server.open_connections).to eq(1)
    end
    eventually { server.open_connections.zero? }
  end

  it "can send without an end" do
    talk(hostile_server(:huge_bulk)) do |socket|
      expect(socket.read(1 << 20).bytesize).to eq(1 << 20)
    end
  end
end
