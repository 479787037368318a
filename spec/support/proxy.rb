# frozen_string_literal: true

require_relative "supervisor"

module Support
  # A TCP proxy in front of a server, with injected trouble. It works in the supervisor, so also
  # while the suite holds its GVL, and every command has taken effect when it returns.
  #
  #   proxy = Proxy.new(server)               # an object with #port, [host, port] or a socket path
  #   proxy.swallow(:reply, connections: 1)   # the next connection to carry a request gets no reply
  #   proxy.clear                             # everything flows again
  #
  # Directions: :request is from the client to the server, :reply the other way. Options of every
  # trouble: after: take hold of a connection only once a request containing this text has passed on
  # it; connections: take hold of this many connections at most. A trouble concerns requests that
  # pass, and their replies, from the moment it is injected, on connections old and new.
  class Proxy
    DEADLINE = 5.0

    attr_reader :port

    def initialize(upstream)
      @id = Supervisor.host(:relay, upstream: address_of(upstream))
      @port = Supervisor.call(@id, :port)
    end

    def url(query = nil, scheme: "redis") = "#{scheme}://127.0.0.1:#{port}#{"?#{query}" if query}"

    # Delays each chunk by the given seconds.
    def delay(direction, seconds, **options) = inject(direction, :delay, seconds, **options)

    # Passes the bytes one by one, the given seconds apart.
    def dribble(direction, seconds, **options) = inject(direction, :dribble, seconds, **options)

    # Closes both sides after that many bytes.
    def cut(direction, after_bytes: 0, **options) = inject(direction, :cut, after_bytes, **options)

    # The same with a RST.
    def reset(direction, after_bytes: 0, **options) =
      inject(direction, :reset, after_bytes, **options)

    # Reads the bytes and drops them. With :reply the server executes the request and the client
    # gets no answer; with :request the server receives nothing.
    def swallow(direction, **options) = inject(direction, :swallow, nil, **options)

    # The same at once on all connections, open and new, also on one that carries no request.
    def swallow_all(direction) = swallow(direction, everywhere: true)

    # Bytes wait until clear.
    def hold(direction, **options) = inject(direction, :hold, nil, **options)

    # The next reply is replaced, whatever follows it is lost.
    def replace(bytes, **options) = inject(:reply, :replace, bytes, **options)

    def half_open(**options)
      swallow(:request, **options)
      swallow(:reply, **options)
    end

    def clear = call(:clear)

    # Modes for new connections.
    def forward = call(:mode=, :forward)

    def silent = call(:mode=, :silent)

    def refuse = call(:mode=, :refuse)

    # New connections go there from now on.
    def upstream=(upstream)
      call(:upstream=, address_of(upstream))
    end

    # Closes all connections that are open now.
    def disconnect = call(:disconnect)

    def accepted = call(:accepted)

    def open_connections = call(:open_links)

    # All bytes so far, or since forget.
    def seen(direction) = call(:seen, direction)

    def forget = call(:forget)

    # Waits until the text (default: any byte) has come by that often; raises at the deadline.
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
