# frozen_string_literal: true

require "socket"
require_relative "port"

module Support
  # The part of a hostile server that runs in the supervisor. It plays the same steps on each
  # connection. The suite controls it through HostileServer (hostile_server.rb), which has the
  # scripts.
  class ScriptedServer
    attr_reader :port

    def initialize(steps:)
      @steps = steps
      @mutex = Mutex.new
      @received = String.new
      @sockets = []
      @listener = Port.claim { |port| Port.bound(port) }
      @listener.listen(128)
      @port = @listener.local_address.ip_port
      @acceptor = Thread.new { accept_all }
    end

    def received = @mutex.synchronize { @received.dup }

    # The number of connections that the client has not closed yet.
    def open_connections = @mutex.synchronize { @sockets.size }

    def close
      @acceptor.kill.join
      @listener.close
      @mutex.synchronize { @sockets.dup }.each { |socket| hang_up(socket) }
      nil
    end

    private

    def accept_all
      loop do
        socket, = @listener.accept
        socket.setsockopt(:TCP, :NODELAY, 1)
        @mutex.synchronize { @sockets << socket }
        Thread.new { play(socket) }
      end
    rescue IOError, SystemCallError
      # The server was closed.
    end

    def play(socket)
      @steps.each { |step, *arguments| __send__(:"step_#{step}", socket, *arguments) }
    rescue IOError, SystemCallError
      # The client has closed the connection.
    ensure
      hang_up(socket)
    end

    def hang_up(socket)
      @mutex.synchronize { @sockets.delete(socket) }
      socket.close
    end

    def step_read(socket)
      bytes = socket.readpartial(16_384)
      @mutex.synchronize { @received << bytes }
    end

    def step_write(socket, bytes) = socket.write(bytes)

    def step_dribble(socket, bytes, seconds)
      bytes.each_char do |byte|
        socket.write(byte)
        sleep seconds
      end
    end

    # Writes for as long as the client reads.
    def step_flood(socket, bytes) = loop { socket.write(bytes) }

    # Reads for as long as the client stays, and never answers.
    def step_hang(socket) = loop { step_read(socket) }

    # Answers each request with the same bytes.
    def step_echo(socket, bytes)
      loop do
        step_read(socket)
        socket.write(bytes)
      end
    end

    def step_reset(socket)
      socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
      socket.close
    end
  end
end
