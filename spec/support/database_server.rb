# frozen_string_literal: true

require "etc"
require "fileutils"
require "socket"
require "tmpdir"
require_relative "supervisor"
require_relative "port"

# Debian installs database servers in folders that are often not in PATH.
ENV["PATH"] = [ENV["PATH"], "/usr/sbin", Dir["/usr/lib/postgresql/*/bin"].max].compact.join(
  File::PATH_SEPARATOR
)

module Support
  # A private database server for the suite, in a temporary folder, with a Unix socket and a free
  # loopback port. Database servers refuse to run as root. If the suite runs as root, they run as
  # the user `nobody`.
  class DatabaseServer
    START_DEADLINE = 60.0

    # The signal that ends the server at once. PostgreSQL has a signal of its own, because it must
    # still remove the files that it has outside of its folder.
    STOP = :KILL

    # The log contains this if another program has taken the port first.
    IN_USE = /in use/i

    # The data is in memory, because on a disk the examples would measure the disk. No data is
    # needed after the suite.
    MEMORY = ["/dev/shm"].find { |folder| File.writable?(folder) }
    private_constant :IN_USE, :MEMORY

    class << self
      def installed?
        self::PROGRAMS.all? do |name|
          ENV["PATH"].split(File::PATH_SEPARATOR).any? { |d| File.executable?(File.join(d, name)) }
        end
      end

      # Starts the server on the first call. After a failure, later calls raise the same error at
      # once.
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

    # Ends the server without warning its clients, as a crash does.
    def kill = finish_server(:KILL)

    # Shuts the server down cleanly, and starts it again. All clients lose their connections.
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

    # Starts the server on this port, or on a free one.
    def launch(port = nil)
      return launch_on(port) || raise(ended) if port

      Port.claim do |free, hold|
        File.truncate(log_path, 0) if File.exist?(log_path)
        if launch_on(free)
          @hold = hold&.dup # keeps the port for a restart
          next true
        end
        raise ended unless log.match?(IN_USE)
      end
    end

    def ended = "#{self.class::PROGRAMS.last} ended:\n#{log}"

    # @return [true, nil] nil if the server ended at once
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
