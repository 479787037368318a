# frozen_string_literal: true

require "rbconfig"
require "securerandom"
require "socket"
require_relative "supervisor"

module Support
  # A process that loads slow libraries once, and then forks for each program that needs them.
  #
  #   talk = process.start("puts 'ready'; puts $stdin.gets")   # an IO to the program's streams
  #   talk.gets                                                # => "ready\n"
  #   process.stop
  class PreloadedProcess
    START_DEADLINE = 60.0

    # Runs in the process. The connection that sent a program becomes the program's standard
    # streams, which also receive its errors.
    PROGRAM = <<~'RUBY'
      require "socket"
      listener = UNIXServer.new(ARGV[0])
      loop do
        connection = listener.accept
        program = connection.read(Integer(connection.gets))
        child = fork do
          listener.close
          [$stdin, $stdout, $stderr].each { |stream| stream.reopen(connection) }
          $stdout.sync = true
          begin
            eval(program, TOPLEVEL_BINDING, "program")
          rescue Exception => e
            puts "#{e.class}: #{e.message}", e.backtrace.first(8)
          end
          exit!
        end
        Process.detach(child)
        connection.close
      end
    RUBY

    # @param preamble [String] the code that the process runs once, at its start
    def initialize(preamble, env: {})
      @path = File.join(Supervisor.folder, "process-#{SecureRandom.hex(4)}")
      lib = File.expand_path("../../lib", __dir__)
      @pid =
        Process.spawn(
          env, RbConfig.ruby, "-I", lib, "-e", "#{preamble}\n#{PROGRAM}", @path, in: File::NULL,
          out: File::NULL, pgroup: true
        )
      Supervisor.watch(@pid)
      @deadline = now + START_DEADLINE
    end

    # @return [UNIXSocket]
    def start(program)
      connection = connect
      connection.write("#{program.bytesize}\n#{program}")
      connection
    end

    # Runs the program to its end, and returns its output.
    def run(program)
      connection = start(program)
      connection.close_write
      connection.read
    ensure
      connection&.close
    end

    # Ends the process and all its forks.
    def stop
      Process.kill(:KILL, -@pid)
      Process.wait(@pid)
      Supervisor.forget(@pid)
    end

    private

    def connect
      UNIXSocket.new(@path)
    rescue Errno::ENOENT, Errno::ECONNREFUSED
      raise if now > @deadline || Process.wait(@pid, Process::WNOHANG)

      sleep 0.01
      retry
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
