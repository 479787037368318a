# frozen_string_literal: true

require_relative "supervisor"

module Support
  # A TCP proxy in front of a server, which can inject troubles. It runs in the supervisor, so
  # that it also works while the suite holds its GVL. When a command returns, it has taken effect.
  #
  #   proxy = Proxy.new(server)               # an object with #port, [host, port] or a socket path
  #   proxy.swallow(:reply, connections: 1)   # the next connection with a request gets no reply
  #   proxy.clear                             # everything flows again
  #
  # Directions: `:request` is from the client to the server, `:reply` is from the server to the
  # client.
  #
  # Each trouble has two options. With `after:`, a trouble affects a connection only after a
  # request that contains this text has passed on it. With `connections:`, a trouble affects at
  # most this many connections. A trouble affects open and new connections, for all requests that
  # pass after its injection, and for their replies.
  class Proxy
    DEADLINE = 5.0

    attr_reader :port

    def initialize(upstream)
      @id = Supervisor.host(:relay, upstream: address_of(upstream))
      @port = Supervisor.call(@id, :port)
    end

    def url(query = nil, scheme: "redis") = "#{scheme}://127.0.0.1:#{port}#{"?#{query}" if query}"

    # Delays each piece of data by the given seconds.
    def delay(direction, seconds, **options) = inject(direction, :delay, seconds, **options)

    # Passes the bytes one by one, the given seconds apart.
    def dribble(direction, seconds, **options) = inject(direction, :dribble, seconds, **options)

    # Closes both sides after the given number of bytes.
    def cut(direction, after_bytes: 0, **options) = inject(direction, :cut, after_bytes, **options)

    # Like cut, but ends the connections with a RST.
    def reset(direction, after_bytes: 0, **options) =
      inject(direction, :reset, after_bytes, **options)

    # Reads the bytes and drops them. With :reply, the server executes the request, but the client
    # gets no answer. With :request, the server receives nothing.
    def swallow(direction, **options) = inject(direction, :swallow, nil, **options)

    # Like swallow, but affects all connections at once, open and new, even those without a
    # request.
    def swallow_all(direction) = swallow(direction, everywhere: true)

    # Keeps the bytes back until #clear.
    def hold(direction, **options) = inject(direction, :hold, nil, **options)

    # Sends these bytes in place of the next reply, and drops everything that follows that reply.
    def replace(bytes, **options) = inject(:reply, :replace, bytes, **options)

    def half_open(**options)
      swallow(:request, **options)
      swallow(:reply, **options)
    end

    def clear = call(:clear)

    # Modes for new connections: forward, silent and refuse.
    def forward = call(:mode=, :forward)

    def silent = call(:mode=, :silent)

    def refuse = call(:mode=, :refuse)

    # From now on, new connections are forwarded to this address.
    def upstream=(upstream)
      call(:upstream=, address_of(upstream))
    end

    # Closes all connections that are open now.
    def disconnect = call(:disconnect)

    def accepted = call(:accepted)

    def open_connections = call(:open_links)

    # The bytes that have passed in this direction, or only those since the last #forget.
    def seen(direction) = call(:seen, direction)

    def forget = call(:forget)

    # Waits until the text (default: any byte) has passed this many times. Raises at the deadline.
    def await(direction, text = /./m, times: 1, within: DEADLINE)
      call(:await, direction, text, times, within) or
        raise "no #{direction} with #{text.inspect} came through"
    end

    def await_open(count, within: DEADLINE)
      call(:await_open, count, within) or
        raise "#{open_connections} connections are open, not #{count}"
    end

    def close = Supervisor.drop(@id)

    private

    def inject(direction, kind, value, **options) = call(:inject, direction, kind, value, **options)

    def call(...) = Supervisor.call(@id, ...)

    def address_of(upstream)
      upstream.respond_to?(:port) ? ["127.0.0.1", upstream.port] : upstream
    end
  end
end
