# frozen_string_literal: true

# The main program of Support::Supervisor. Its arguments are the folder and the suite's process
# id.

require "fileutils"
require "socket"
require_relative "relay"
require_relative "scripted_server"

module Support
  # Executes the suite's commands, hosts its proxies and servers, and cleans up after it.
  class SupervisorProcess
    KINDS = { relay: Relay, scripted_server: ScriptedServer }.freeze
    PULSE = 0.2 # seconds between two checks that the suite still runs

    GRACE = 10 # seconds from SIGTERM to SIGKILL for a suite that hangs

    def initialize(folder, suite)
      @folder = folder
      @suite = suite
      @server = UNIXServer.new(File.join(folder, "supervisor"))
      @mutex = Mutex.new
      @hosted = {}
      @watched = {}
      @owned = [folder]
      @example = nil
    end

    def run
      Thread.new { watch_suite }
      loop do
        socket = @server.accept
        Thread.new { answer(socket) }
      end
    end

    private

    # Never returns: cleans up and exits when the suite is dead. The suite is dead when this process
    # has another parent, even if a child of the suite still runs.
    def watch_suite
      while Process.ppid == @suite
        sleep PULSE
        name, deadline = @mutex.synchronize { @example }
        end_suite(name) if deadline && now > deadline
      end
      clear
      exit!(1)
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # If the suite hangs in an example, names the example and ends the suite, so that the program
    # that has started the suite does not hang.
    def end_suite(name)
      @mutex.synchronize { @example = nil }
      warn "\nThis example does not end, so the suite is ended: #{name}"
      Process.kill(:TERM, @suite)
      deadline = now + GRACE
      sleep PULSE while Process.ppid == @suite && now < deadline
      Process.kill(:KILL, @suite) if Process.ppid == @suite
    end

    def begin_example(name, seconds) =
      @mutex.synchronize { @example = [name, now + seconds] } && nil

    def end_example = @mutex.synchronize { @example = nil }

    def answer(socket)
      id, method, arguments, options = Marshal.load(socket)
      socket.write(obey(id, method, arguments, options))
      exit!(0) if id.nil? && method == :clear
    rescue SystemCallError, EOFError
      # The process that sent the command is gone, because some examples kill a process during a
      # command.
    ensure
      socket.close
    end

    def obey(id, method, arguments, options)
      receiver = id ? @mutex.synchronize { @hosted.fetch(id) } : self
      Marshal.dump([:ok, receiver.__send__(method, *arguments, **options)])
    rescue StandardError => e
      Marshal.dump([:failed, "#{e.class}: #{e.message} (#{e.backtrace.first})"])
    end

    def host(kind, **options)
      hosted = KINDS.fetch(kind).new(**options)
      @mutex.synchronize { @hosted[hosted.object_id] = hosted }
      hosted.object_id
    end

    def drop(id)
      @mutex.synchronize { @hosted.delete(id) }&.close
      nil
    end

    def watch(pid) = @mutex.synchronize { @watched[pid] = true }

    def own(folder) = @mutex.synchronize { @owned << folder } && nil

    def forget(pid) = @mutex.synchronize { @watched.delete(pid) }

    def clear
      @mutex.synchronize do
        @watched.each_key do |pid|
          Process.kill(:KILL, pid)
        rescue Errno::ESRCH
          # The process has ended by itself.
        end
      end
      FileUtils.rm_rf(@owned)
    end
  end
end

folder, suite = ARGV
supervisor = Support::SupervisorProcess.new(folder, Integer(suite))
$stdout.puts("ready")
$stdout.reopen(File::NULL)
supervisor.run
