# frozen_string_literal: true

require "etc"
require "fileutils"
require "tmpdir"
require_relative "backstage"

module Support
  # A private PostgreSQL on a Unix socket, for the example that writes to one. It does not run as root, so where the suite does,
  # it runs as nobody.
  class Postgres
    PROGRAMS = %w[initdb postgres psql pg_isready].freeze
    START_DEADLINE = 30.0

    # @return [String] the folder of its socket: PGHOST
    attr_reader :folder

    def initialize
      @folder = Dir.mktmpdir("plock-pg-")
      FileUtils.chown(user.uid, user.gid, @folder) if Process.euid.zero?
      data = File.join(@folder, "data")
      Process.wait(as_user("initdb", "-D", data, "-U", "plock", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"))
      @pid = as_user("postgres", "-D", data, "-k", @folder, "-c", "listen_addresses=", "-c", "fsync=off")
      Backstage.watch(@pid)
      await
    end

    # What a client is to have in its environment.
    def env = { "PGHOST" => @folder, "PGUSER" => "plock", "PGDATABASE" => "postgres" }

    def stop
      Process.kill(:INT, @pid)
      Process.wait(@pid)
      Backstage.forget(@pid)
      FileUtils.rm_rf(@folder)
    end

    private

    def user = Etc.getpwnam("nobody")

    def as_user(*command)
      Process.fork do
        if Process.euid.zero?
          Process.initgroups(user.name, user.gid)
          Process::GID.change_privilege(user.gid)
          Process::UID.change_privilege(user.uid)
        end
        Dir.chdir("/")
        exec(*command, in: File::NULL, out: File.join(@folder, "log"), err: %i[child out])
      end
    end

    def await
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + START_DEADLINE
      until system(env, "pg_isready", "-q")
        fail_to_start if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        sleep 0.05
      end
    end

    def fail_to_start
      raise "PostgreSQL did not start: #{File.read(File.join(@folder, "log"))}"
    end
  end
end
