# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"

module Demo
  # A redis-server on a Unix socket in a folder of its own; nothing of it is left after #close.
  class PrivateServer
    PATIENCE_S = 5
    LOOK_AGAIN_S = 0.01

    attr_reader :url

    def initialize
      @folder = Dir.mktmpdir("plock-demo")
      socket = File.join(@folder, "redis.sock")
      @url = "unix://#{socket}"
      # In a process group of its own, so that Ctrl-C reaches only the demo, which then stops it.
      @pid = Process.spawn("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", @folder,
                           %i[out err] => File.join(@folder, "log"), in: File::NULL, pgroup: true)
      await(socket)
    rescue SystemCallError, SignalException
      close
      raise
    end

    def name = "a private redis-server on a Unix socket"

    def close(*)
      if @pid
        Process.kill(:KILL, @pid) # it holds nothing that anybody wants back
        Process.wait(@pid)
        @pid = nil
      end
      FileUtils.remove_entry(@folder) if File.exist?(@folder)
    end

    private

    def await(socket)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_S
      begin
        UNIXSocket.new(socket).close
      rescue Errno::ENOENT, Errno::ECONNREFUSED
        raise if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

        sleep LOOK_AGAIN_S
        retry
      end
    end
  end
end
