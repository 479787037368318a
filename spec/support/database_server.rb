# frozen_string_literal: true

require "etc"
require "fileutils"
require "socket"
require "tmpdir"
require_relative "supervisor"
require_relative "port"

# Debian's folders of servers, which are often not in PATH.
ENV["PATH"] = [ENV["PATH"], "/usr/sbin", Dir["/usr/lib/postgresql/*/bin"].max].compact.join(
  File::PATH_SEPARATOR
)

module Support
  # A database server of the suite's own, in a temporary folder, on a Unix socket and a free
  # loopback port. These servers refuse to run as root. If the suite runs as root, they run as the
  # user `nobody`.
  class DatabaseServer
    START_DEADLINE = 60.0

    # The signal that ends it at once, after it has removed its files outside of its folder.
    STOP = :KILL

    # Another program took the port first.
    IN_USE = /in use/i

    # A disk would be measured otherwise: nothing here is to outlive the suite.
    MEMORY = ["/dev/shm"].find { |folder| File.writable?(folder) }
    private_constant :IN_USE, :MEMORY

    class << self
      def installed?
        self::PROGRAMS.all? do |name|
          ENV["PATH"].split(File::PATH_SEPARATOR).any? { |d| File.executable?(File.join(d, name)) }
        end
      end

      # Started when it is first needed. If that fails, it is not tried again for each example.
      def shared
        raise @failure if @failure

        @shared ||= new.start.tap { |server| Supervisor.before_end { server.stop } }
      rescue RuntimeError => e
        raise @failure = e
      end
    end

    attr_reader :folder, :pid, :port

    def initialize
      @folder = Dir.mktmpdir("plock-db-", MEMORY)
      FileUtils.chown(user.uid, user.gid, @folder) if Process.euid.zero?
      Supervisor.own(@folder)
      @owner = Process.pid
    end

    def start
      initialize_data
      launch
      self
    end

    # With no farewell, as a crash.
    def kill = finish_server(:KILL)

    # Those who are connected are cut off.
    def restart
      finish_server(self.class::FAST)
      launch(port)
      self
    end

    def stop_process
      Process.kill(:STOP, pid)
      Process.wait(pid, Process::WUNTRACED)
    end

    def continue_process = Process.kill(:CONT, pid)

    def stop
      finish_server(self.class::STOP) if pid
      @hold&.close
      FileUtils.rm_rf(@folder)
    end

    def log = File.read(log_path)

    private

    def log_path = File.join(@folder, "log")

    def data = File.join(@folder, "data")

    def user = Etc.getpwnam("nobody")

    def as_user(*command)
      Process.fork do
        if Process.euid.zero?
          Process.initgroups(user.name, user.gid)
          Process::GID.change_privilege(user.gid)
          Process::UID.change_privilege(user.uid)
        end
        Dir.chdir("/")
        exec(
          { "TMPDIR" => @folder }, *command, in: File::NULL, out: [log_path, "a"],
          err: %i[child out], pgroup: true
        )
      end
    end

    def finish(pid)
      Process.wait(pid)
      raise "#{self.class::PROGRAMS.first} failed:\n#{log}" unless $?.success?
    end

    # On a port that is free, or on this one.
    def launch(port = nil)
      return launch_on(port) || raise(ended) if port

      Port.claim do |free, hold|
        File.truncate(log_path, 0) if File.exist?(log_path)
        if launch_on(free)
          @hold = hold&.dup # it may start again
          next true
        end
        raise ended unless log.match?(IN_USE)
      end
    end

    def ended = "#{self.class::PROGRAMS.last} ended:\n#{log}"

    # @return [true, nil] nil: it has ended
    def launch_on(port)
      @port = port
      @pid = as_user(*start_command(port))
      Supervisor.watch(@pid)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + START_DEADLINE
      until answers?
        return @pid = Supervisor.forget(@pid) && nil if Process.wait(@pid, Process::WNOHANG)
        if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          raise "it does not answer:\n#{log}"
        end

        sleep 0.02
      end
      true
    end

    def finish_server(signal)
      return unless pid && @owner == Process.pid

      Process.kill(signal, pid)
      Process.wait(pid)
      Supervisor.forget(pid)
      @pid = nil
    end
  end
end
