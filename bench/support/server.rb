# frozen_string_literal: true

require "socket"
require "tmpdir"
require_relative "bench"
require_relative "pinning"

module Bench
  # A private redis-server without persistence, on a free loopback port and a Unix socket in a
  # temporary folder.
  class Server
    START_SECONDS = 10

    attr_reader :address, :pid

    def self.run(program)
      server = new(program)
      yield server
    ensure
      server&.stop
    end

    def initialize(program)
      @folder = Dir.mktmpdir("plock-bench")
      @address = Address.new(free_port, File.join(@folder, "redis.sock"))
      @log = File.join(@folder, "redis.log")
      @pid =
        Process.spawn(
          program, "--bind", "127.0.0.1", "--port", @address.port.to_s, "--unixsocket",
          @address.socket, "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir",
          @folder, "--logfile", @log, pgroup: true
        )
      await
    rescue Errno::ENOENT
      FileUtils.rm_rf(@folder)
      raise Failed, "no #{program} on this system"
    end

    def place(placement) = Pinning.move(@pid, placement.server_core)

    # "redis 7.0.15" or "valkey 8.0.1"
    def version
      info = query("INFO", "server")
      valkey = info[/^valkey_version:(\S+)/, 1]
      valkey ? "valkey #{valkey}" : "redis #{info[/^redis_version:(\S+)/, 1]}"
    end

    # Returns the number of commands that clients sent while the block ran.
    def count_commands
      watch do |monitor|
        yield
        monitor.commands.size
      end
    end

    # Yields a Monitor. MONITOR slows the server down, so do not measure time in the block.
    def watch
      UNIXSocket.open(@address.socket) do |socket|
        ask(socket, "MONITOR")
        yield Monitor.new(socket, method(:query))
      end
    end

    # The memory that the server uses, in bytes.
    def memory = Integer(query("INFO", "memory")[/^used_memory:(\d+)/, 1])

    # The number of client connections, without the one that asks for it.
    def connections
      UNIXSocket.open(@address.socket) do |socket|
        ask(socket, "CLIENT", "SETNAME", "bench")
        ask(socket, "CLIENT", "LIST").lines.count do |line|
          line.match?(/\Aid=/) && !line.match?(/ name=bench /)
        end
      end
    end

    # Reads the commands of clients from MONITOR. INFO commandstats and total_commands_processed
    # would also count the calls that scripts make. MONITOR marks those with "lua".
    class Monitor
      LINE = /\A\+[\d.]+ \[\d+ (?<from>[^\]]+)\] "(?<name>[^"]+)"/

      def initialize(socket, query)
        @socket = socket
        @query = query
      end

      # Returns the names of the commands that arrived since the previous call of this method, or
      # since MONITOR began.
      def commands
        mark = "mark-#{Process.pid}-#{Bench.now}"
        @query.call("ECHO", mark)
        seen =
          @socket
            .each_line
            .take_while { |line| !line.include?(mark) }
            .filter_map { |line| LINE.match(line) }
        seen.reject { |line| line[:from] == "lua" }.map { |line| line[:name].upcase }
      end
    end

    def stop
      if @pid
        Process.kill(:TERM, @pid)
        Process.wait(@pid)
        @pid = nil
      end
    ensure
      FileUtils.rm_rf(@folder)
    end

    private

    def free_port
      TCPServer.open("127.0.0.1", 0) { |socket| socket.addr[1] }
    end

    def await
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + START_SECONDS
      begin
        query("PING")
      rescue SystemCallError
        log = File.exist?(@log) ? File.read(@log) : ""
        late = Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        if late || Process.wait(@pid, Process::WNOHANG)
          raise Failed, "the server did not start: #{log}"
        end

        sleep 0.02
        retry
      end
    end

    def query(*words) = UNIXSocket.open(@address.socket) { |socket| ask(socket, *words) }

    # Sends a command, and reads its reply, which must be a status or a bulk string.
    def ask(socket, *words)
      socket.write("*#{words.size}\r\n", *words.map { |word| "$#{word.bytesize}\r\n#{word}\r\n" })
      head = socket.gets or raise Failed, "the server closed the connection"
      case head[0]
      when "+" then head[1..].chomp
      when "$" then socket.read(Integer(head[1..]) + 2).chomp
      else raise Failed, "the server says #{head.chomp}"
      end
    end
  end
end
