# frozen_string_literal: true

require "rbconfig"
require "socket"
require_relative "bench"
require_relative "pinning"

module Bench
  # A slow link to the server: a TCP relay in its own process, which delays the bytes in both
  # directions (link_process.rb).
  class Link
    LEAST = 10    # the fewest PINGs
    PINGING = 0.5 # the fewest seconds for which PINGs are sent

    # Yields a link whose relay process runs on this processor core.
    def self.open(address, core)
      link = new(address, core)
      yield link
    ensure
      link&.close
    end

    def initialize(address, core)
      program = File.join(__dir__, "link_process.rb")
      @io = IO.popen(
        Pinning.command(core, RbConfig.ruby, program, address.port.to_s), "r+"
      )
      @port = Integer(@io.gets)
      @socket = address.socket
      @own = round_trip
    end

    # The address of the server with the relay's port in place of its own. The Unix socket bypasses
    # the relay.
    def address = Address.new(@port, @socket)

    # Sets the duration of a round trip in milliseconds. The relay's own time is part of the round
    # trip, so a round trip cannot be shorter than that time.
    def round_trip=(milliseconds)
      @io.puts([((milliseconds - @own) * 1e6 / 2).to_i, 0].max)
      @io.gets
    end

    # The median time of several PINGs, in milliseconds. The first half of them only warms up.
    def round_trip
      took = []
      TCPSocket.open("127.0.0.1", @port) do |socket|
        socket.setsockopt(:TCP, :NODELAY, 1)
        finish = Bench.now + (PINGING * 1e9).to_i
        took << ping(socket) while took.size < LEAST || Bench.now < finish
      end
      took.drop(took.size / 2).then { |warm| warm.sort[warm.size / 2] / 1e6 }
    end

    def close
      @io.close
    end

    private

    def ping(socket)
      start = Bench.now
      socket.write("PING\r\n")
      socket.gets
      Bench.now - start
    end
  end
end
