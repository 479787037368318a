# frozen_string_literal: true

require_relative "database_server"

module Support
  # A PgBouncer in front of one of the suite's PostgreSQL servers.
  class Pgbouncer < DatabaseServer
    PROGRAMS = %w[pgbouncer].freeze
    FAST = :INT

    # @param upstream [Postgres]
    # @param mode [Symbol] how long a client keeps a server connection: for a `:transaction` or a
    #   `:session`
    def initialize(upstream, mode)
      super()
      @upstream = upstream
      @mode = mode
    end

    # The configuration with which Active Record connects.
    def config(**options) =
      @upstream.config(
        host: "127.0.0.1", port: port, prepared_statements: false, advisory_locks: false, **options
      )

    private

    def initialize_data; end

    def start_command(port)
      upstream = "host=#{@upstream.folder} port=#{@upstream.port} user=#{Postgres::USER}"
      File.write(ini, <<~INI)
        [databases]
        #{Postgres::DATABASE} = #{upstream}
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = #{port}
        unix_socket_dir =
        auth_type = any
        pool_mode = #{@mode}
        default_pool_size = 20
        ignore_startup_parameters = extra_float_digits
      INI
      ["pgbouncer", ini]
    end

    def ini = File.join(folder, "pgbouncer.ini")

    # Looks at the log, because another program that took the port first would also answer.
    def answers? = File.exist?(log_path) && log.include?("listening on 127.0.0.1:#{port}")
  end
end
