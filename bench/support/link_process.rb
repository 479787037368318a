# frozen_string_literal: true

# The process of a link: `link_process.rb UPSTREAM_PORT`. It accepts TCP connections on its own
# port, connects each to the upstream port, and forwards the bytes in both directions after a
# delay. It prints its port. Then each line on its standard input sets the delay in nanoseconds,
# which applies to each direction. It answers each line with an empty line.

require "socket"

module Bench
  class LinkProcess
    CHUNK = 65_536
    SPIN = 60_000 # nanoseconds by which a sleep may last too long

    def initialize(upstream)
      @upstream = upstream
      @delay = 0
    end

    def run
      server = TCPServer.new("127.0.0.1", 0)
      Thread.new { loop { link(server.accept) } }
      say(server.addr[1])
      while (line = $stdin.gets)
        @delay = Integer(line)
        say("")
      end
    end

    private

    def link(client)
      server = TCPSocket.new("127.0.0.1", @upstream)
      [client, server].each { |socket| socket.setsockopt(:TCP, :NODELAY, 1) }
      pump(client, server)
      pump(server, client)
    rescue SystemCallError
      client.close
    end

    # One thread reads and another one writes, so that a chunk does not wait for the delay of the
    # previous chunk.
    def pump(from, to)
      chunks = Queue.new
      Thread.new do
        loop { chunks << [from.readpartial(CHUNK), now + @delay] }
      rescue IOError, SystemCallError
        chunks << nil
      end
      Thread.new { deliver(chunks, to) }
    end

    def deliver(chunks, to)
      while (bytes, due = chunks.pop)
        pause(due)
        to.write(bytes)
      end
      to.close_write
    rescue IOError, SystemCallError
      to.close
    end

    def pause(due)
      while (left = due - now).positive?
        left > SPIN ? sleep((left - SPIN) / 1e9) : Thread.pass
      end
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)

    def say(text)
      $stdout.puts(text)
      $stdout.flush
    end
  end
end

Bench::LinkProcess.new(Integer(ARGV.first)).run
