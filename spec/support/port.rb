# frozen_string_literal: true

require "socket"

module Support
  # Free loopback ports. They are taken from below the range that the kernel hands out to clients:
  # there no outgoing connection can sit on the port in between, and a connection to a port that
  # refuses cannot happen to meet itself. The second port of a cluster's node is 10,000 above the
  # first, so it is below that range too, and never the first port of another.
  module Port
    RANGE = (12_000...22_000).freeze
    TRIES = 200
    SHARED = RUBY_PLATFORM.include?("linux")
    private_constant :SHARED

    # Yields free ports until the block returns something; the block does the binding and says nil,
    # or raises EADDRINUSE, if another program was quicker.
    #
    # @yieldparam port [Integer]
    # @yieldparam hold [Socket, nil] bound, not listening: meanwhile no other process of the suite
    #   claims the port, but a server can listen on it. It is closed after the block; a dup of it
    #   keeps the port for a server that starts again. nil: this system lets no two sockets be bound
    #   to one port.
    def self.claim
      TRIES.times do
        port = Random.new.rand(RANGE)
        hold = held(port) if SHARED
        taken = yield port, hold
        return taken if taken
      rescue Errno::EADDRINUSE
        next
      ensure
        hold&.close
      end
      raise "no free loopback port after #{TRIES} tries"
    end

    # A socket bound to the port on 127.0.0.1, not listening yet.
    def self.bound(port) = bind(port) { |socket| share(socket) }

    # The same, if no other socket is bound to the port.
    def self.held(port) = share(bind(port))

    def self.bind(port)
      socket = Socket.new(:INET, :STREAM)
      yield socket if block_given?
      socket.bind(Addrinfo.tcp("127.0.0.1", port))
      socket
    rescue SystemCallError
      socket&.close
      raise
    end

    # On Linux, two sockets can have one port if both allow it, and no more than one listens.
    def self.share(socket)
      socket.setsockopt(:SOCKET, :REUSEADDR, true)
      socket
    end

    private_class_method :held, :bind, :share
  end
end
