# frozen_string_literal: true

require_relative "database_server"

module Support
  # A private PostgreSQL.
  class Postgres < DatabaseServer
    PROGRAMS = %w[initdb postgres psql].freeze
    FAST = :INT
    STOP = :QUIT
    USER = "plock"
    DATABASE = "postgres"

    # The environment variables with which a client connects.
    def env =
      { "PGHOST" => folder, "PGPORT" => port.to_s, "PGUSER" => USER, "PGDATABASE" => DATABASE }

    # The configuration with which Active Record connects.
    def config(**options) =
      {
        adapter: "postgresql", host: folder, port: port, username: USER, database: DATABASE,
        **options
      }

    def tcp_config(port: self.port, **options) = config(host: "127.0.0.1", port: port, **options)

    def socket = "#{folder}/.s.PGSQL.#{port}"

    private

    # Makes the server's later sessions real-time processes, if this process may do so. Each session
    # calls setsid(2), which gives it an autogroup (sched(7)). On Linux 6.18, a process with a new
    # autogroup may have to wait for several seconds on a busy machine until it runs. Real-time
    # processes have no autogroup.
    def launch_on(port)
      started = super
      if started
        system("chrt", "--rr", "--pid", "1", pid.to_s, out: File::NULL, err: File::NULL)
      end
      started
    end

    def initialize_data
      finish(
        as_user(
          "initdb", "-D", data, "-U", USER, "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"
        )
      )
    end

    def start_command(port)
      [
        "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c",
        "port=#{port}", "-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=32MB",
        "-c", "dynamic_shared_memory_type=mmap"
      ]
    end

    def answers?
      system(env, "psql", "-Atc", "SELECT 1", out: File::NULL, err: File::NULL)
    end
  end
end
