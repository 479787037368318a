# frozen_string_literal: true

require "socket"

module Support
  # Finds free loopback ports, below the range from which the kernel gives ports to clients. So no
  # outgoing connection can occupy such a port, and a client that connects to a closed port cannot
  # connect to itself. The second port of a cluster's node is its first port plus 10,000. It is
  # also below that range, and it is never another server's first port.
  module Port
    RANGE = (12_000...22_000).freeze
    TRIES = 200
    SHARED = RUBY_PLATFORM.include?("linux")
    private_constant :SHARED

    # Yields free ports until the block returns a true value. The block must bind the port. If
    # another program has taken the port, the block returns nil or raises EADDRINUSE.
    #
    # @yieldparam port [Integer]
    # @yieldparam hold [Socket, nil] a socket that is bound but does not listen. It keeps other
    #   processes of the suite from claiming the port, while a server can still listen there. It
    #   is closed after the block. A dup of it keeps the port for a server that starts again. It
    #   is nil if this system cannot bind two sockets to one port.
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

    # A socket that is bound to the port on 127.0.0.1, and does not listen yet.
    def self.bound(port) = bind(port) { |socket| share(socket) }

    # Like bound, but raises EADDRINUSE if another socket is bound to the port.
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

    # On Linux, two sockets can be bound to one port if both allow it and at most one listens.
    def self.share(socket)
      socket.setsockopt(:SOCKET, :REUSEADDR, true)
      socket
    end

    private_class_method :held, :bind, :share
  end
end
