# frozen_string_literal: true

require "socket"
require_relative "port"

module Support
  # The part of a proxy that runs in the supervisor. It accepts connections, connects to the
  # server, and passes the bytes in both directions, after it has applied all injected troubles to
  # them. The suite controls it through Proxy (proxy.rb).
  class Relay
    # One trouble, in one direction. It affects a connection from the first request that contains
    # `after` (nil: any request). It affects at most `connections` connections.
    class Trouble
      attr_reader :direction, :kind, :value

      # everywhere: does the trouble affect all connections at once, without waiting for a request?
      def initialize(direction, kind, value, after, connections, everywhere)
        @direction = direction
        @kind = kind
        @value = value
        @after = after
        @connections = connections
        @everywhere = everywhere
        @links = []
      end

      def meet(link, request)
        return if @links.include?(link) || (@connections && @links.size >= @connections)

        @links << link if @after.nil? || request.include?(@after)
      end

      def concerns?(link, direction)
        @direction == direction && (@everywhere || @links.include?(link))
      end
    end

    # One connection through the proxy. `passed` counts the bytes that each trouble has let
    # through.
    class Link
      attr_reader :client, :server, :passed
      attr_accessor :closed

      def initialize(client, server)
        @client = client
        @server = server
        @passed = Hash.new(0).compare_by_identity
        @closed = false
      end

      def sockets = [client, server].compact
    end

    LOG_LIMIT = 1 << 20
    LINGER_ZERO = [1, 0].pack("ii")

    attr_reader :port, :accepted

    def initialize(upstream:)
      @upstream = upstream
      @mutex = Mutex.new
      @changed = ConditionVariable.new
      @links = []
      @troubles = []
      @accepted = 0
      @log = { request: String.new, reply: String.new }
      @mode = :forward
      listen(Port.claim { |port| Port.bound(port) })
    end

    # The mode is :forward, :silent or :refuse. With :silent, the relay accepts connections and
    # reads, but never answers and never connects to the server.
    def mode=(mode)
      @mutex.synchronize { @mode = mode }
      if mode == :refuse
        stop_listening
        # A socket that is bound but does not listen refuses connections, and keeps the port.
        @placeholder ||= Port.bound(@port)
      elsif @placeholder
        @placeholder.close
        @placeholder = nil
        listen(Port.bound(@port))
      end
      nil
    end

    def upstream=(address)
      @mutex.synchronize { @upstream = address }
    end

    def inject(direction, kind, value, after: nil, connections: nil, everywhere: false)
      change { @troubles << Trouble.new(direction, kind, value, after, connections, everywhere) }
    end

    # Ends all troubles. Bytes that were held back continue on their way.
    def clear = change { @troubles.clear }

    def disconnect
      @mutex.synchronize { @links.dup }.each { |link| shut(link) }
      nil
    end

    def open_links = @mutex.synchronize { @links.size }

    def seen(direction) = @mutex.synchronize { @log[direction].dup }

    def forget = @mutex.synchronize { @log.each_value(&:clear) && nil }

    # Waits until `text` has passed in that direction `times` times. Returns false at the
    # deadline.
    def await(direction, text, times, within)
      wait_until(within) { @log[direction].scan(text).size >= times }
    end

    def await_open(count, within) = wait_until(within) { @links.size == count }

    def close
      stop_listening
      @placeholder&.close
      clear
      disconnect
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def change
      @mutex.synchronize do
        yield
        @changed.broadcast
      end
      nil
    end

    def wait_until(within)
      deadline = now + within
      @mutex.synchronize do
        until (met = yield) || (left = deadline - now) <= 0
          @changed.wait(@mutex, left)
        end
        met ? true : false
      end
    end

    def listen(socket)
      @port = socket.local_address.ip_port
      socket.listen(128)
      @listener = socket
      @acceptor = Thread.new { accept_from(socket) }
    end

    def stop_listening
      @acceptor.kill.join
      @listener.close unless @listener.closed?
    end

    def accept_from(listener)
      loop do
        client, = listener.accept
        mode, upstream = @mutex.synchronize { [@mode, @upstream] }
        open_link(client, (connect(upstream) if mode == :forward), mode)
      end
    rescue IOError, SystemCallError
      # stop_listening has closed the listener.
    end

    def connect(upstream)
      upstream.is_a?(String) ? UNIXSocket.new(upstream) : TCPSocket.new(*upstream)
    rescue SystemCallError
      nil
    end

    def open_link(client, server, mode)
      link = Link.new(client, server)
      link.sockets.each do |socket|
        socket.setsockopt(:TCP, :NODELAY, 1) unless socket.is_a?(UNIXSocket)
      end
      change do
        @accepted += 1
        @links << link
      end
      return shut(link, reset: true) if mode == :forward && !server

      Thread.new { pump(link, :request, client, server) }
      Thread.new { pump(link, :reply, server, client) } if server
    end

    def pump(link, direction, from, to)
      loop do
        bytes = from.readpartial(16_384)
        note(link, direction, bytes)
        pass(link, direction, bytes, to) if to
      end
    rescue IOError, SystemCallError
      # The client or the server has gone, or a trouble has cut the connection.
    ensure
      shut(link)
    end

    def note(link, direction, bytes)
      change do
        @log[direction] << bytes if @log[direction].bytesize < LOG_LIMIT
        @troubles.each { |trouble| trouble.meet(link, bytes) } if direction == :request
      end
    end

    def pass(link, direction, bytes, to)
      troubles_of(link, direction).each do |trouble|
        bytes = suffer(trouble, link, bytes, to)
        return if bytes.empty?
      end
      to.write(bytes)
    end

    def troubles_of(link, direction)
      @mutex.synchronize { @troubles.select { |trouble| trouble.concerns?(link, direction) } }
    end

    # Applies the trouble, and returns the bytes that must still be written.
    def suffer(trouble, link, bytes, to)
      case trouble.kind
      when :swallow then ""
      when :hold    then pause(trouble, link) && bytes
      when :delay   then pause(trouble, link, trouble.value) && bytes
      when :dribble then dribble(trouble, link, bytes, to)
      when :cut, :reset then cut(trouble, link, bytes, to)
      when :replace then replace(trouble, link)
      else raise ArgumentError, "no trouble called #{trouble.kind}"
      end
    end

    # Waits until the time is over, the trouble is cleared or the link closes.
    def pause(trouble, link, seconds = 3600)
      wait_until(seconds) { link.closed || !@troubles.include?(trouble) }
      true
    end

    def dribble(trouble, link, bytes, to)
      bytes.each_char do |byte|
        to.write(byte)
        pause(trouble, link, trouble.value)
      end
      ""
    end

    def cut(trouble, link, bytes, to)
      room = trouble.value - link.passed[trouble]
      if bytes.bytesize >= room
        to.write(bytes.byteslice(0, room))
        shut(link, reset: trouble.kind == :reset)
        raise IOError, "cut"
      end
      link.passed[trouble] += bytes.bytesize
      bytes
    end

    def replace(trouble, link)
      link.passed[trouble] += 1
      link.passed[trouble] == 1 ? trouble.value : ""
    end

    def shut(link, reset: false)
      change do
        next if link.closed

        link.closed = true
        @links.delete(link)
        link.client.setsockopt(:SOCKET, :LINGER, LINGER_ZERO) if reset
        # Shuts the sockets down first. That ends the other thread's read, which close alone would
        # not.
        link.sockets.each { |socket| hang_up(socket, reset) }
      end
    end

    def hang_up(socket, reset)
      socket.shutdown unless reset
      socket.close
    rescue SystemCallError, IOError
      socket.close
    end
  end
end
