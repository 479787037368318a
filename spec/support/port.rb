# frozen_string_literal: true

require "socket"

module Support
  # Free loopback ports. They are taken from below the range that the kernel hands out to clients:
  # there no outgoing connection can sit on the port in between, and a connection to a port that
  # refuses cannot happen to meet itself.
  module Port
    RANGE = (15_000..30_000).freeze
    TRIES = 200

    # Yields free-looking ports until the block returns something; the block does the binding and
    # says nil, or raises EADDRINUSE, if another process was quicker.
    def self.claim
      TRIES.times do
        taken = yield Random.new.rand(RANGE)
        return taken if taken
      rescue Errno::EADDRINUSE
        next
      end
      raise "no free loopback port after #{TRIES} tries"
    end

    # A socket bound to the port on 127.0.0.1, not listening yet.
    def self.bound(port)
      socket = Socket.new(:INET, :STREAM)
      socket.setsockopt(:SOCKET, :REUSEADDR, true)
      socket.bind(Addrinfo.tcp("127.0.0.1", port))
      socket
    rescue SystemCallError
      socket.close
      raise
    end
  end
end
