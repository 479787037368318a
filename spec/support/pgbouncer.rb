# frozen_string_literal: true

require_relative "database_server"

module Support
  # A pooler before a PostgreSQL of the suite's.
  class Pgbouncer < DatabaseServer
    PROGRAMS = %w[pgbouncer].freeze
    FAST = :INT

    # @param upstream [Postgres]
    # @param mode [Symbol] what it lends a connection of the server to: `:transaction`, `:session`
    def initialize(upstream, mode)
      super()
      @upstream = upstream
      @mode = mode
    end

    # What Active Record connects with.
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

    # If another program took the port first, that program would answer.
    def answers? = File.exist?(log_path) && log.include?("listening on 127.0.0.1:#{port}")
  end
end
