# frozen_string_literal: true

require_relative "supervisor"

module Support
  # A server that misbehaves in the same way to each client.
  #
  #   HostileServer.new(:silent)                    # one of SCRIPTS
  #   HostileServer.new([[:read], [:write, "+OK"]]) # or the example's own steps
  class HostileServer
    GIBIBYTE = 1 << 30

    SCRIPTS = {
      silent: [[:hang]],
      closes: [],
      closes_on_request: [[:read]],
      resets_on_request: [[:read], [:reset]],
      closes_in_reply: [[:read], [:write, "*3\r\n$3\r\nab"]],
      garbage: [[:echo, "\x00\xFF\x13 no protocol at all \r\n\r\n\x80"]],
      huge_array: [[:echo, "*2147483647\r\n"]],
      huge_bulk: [[:read], [:write, "$#{GIBIBYTE}\r\n"], [:flood, "x" * 65_536]],
      endless_line: [[:read], [:write, "+"], [:flood, "x" * 65_536]],
      deep: [[:echo, "*1\r\n" * 5_000]],
      wide: [[:read], [:write, "*1000000\r\n"], [:flood, ":1\r\n" * 4_096]],
      negative: [[:echo, "$-7\r\n"]],
      slow: [[:read], [:dribble, "$4096\r\n#{"x" * 4_096}\r\n", 0.02]],
      not_tls: [[:read], [:write, "-ERR unknown command\r\n"], [:hang]]
    }.freeze

    attr_reader :port

    def initialize(script)
      @id = Supervisor.host(:scripted_server, steps: SCRIPTS.fetch(script) { script })
      @port = Supervisor.call(@id, :port)
    end

    def url(query = nil, scheme: "redis") = "#{scheme}://127.0.0.1:#{port}#{"?#{query}" if query}"

    def received = Supervisor.call(@id, :received)

    # The number of connections that the client has not closed.
    def open_connections = Supervisor.call(@id, :open_connections)

    def close = Supervisor.drop(@id)
  end
end
