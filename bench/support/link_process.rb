# frozen_string_literal: true

# The process of a link: `link_process.rb UPSTREAM_PORT`. Accepts TCP connections on a port of its
# own, connects each onward, and passes the bytes both ways, each a set time after it came in.
# Prints the port. Then each line on its standard input sets the delay of one direction in
# nanoseconds, and gets an empty line as its answer.

require "socket"

module Bench
  class LinkProcess
    CHUNK = 65_536
    SPIN = 60_000 # nanoseconds: a sleep oversleeps by about that much

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

    # One thread reads and one writes, so that a chunk does not wait for the delay of the one before
    # it.
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
