# frozen_string_literal: true

require "securerandom"
require "support/databases"

module Support
  # A database whose server can tell the connections of one example from all others, so that the
  # example can count them and cut them.
  class AdvisoryServer
    NAMES = %i[postgresql mysql2 trilogy].freeze

    # @param name [Symbol] of NAMES
    def initialize(name)
      @name = name
      @mark = "marked_#{SecureRandom.hex(6)}"
      admin.execute("CREATE DATABASE #{@mark}") unless postgresql?
    end

    def postgresql? = @name == :postgresql

    # A connection of the example's own.
    def admin = Databases.model(@name).lease_connection

    # @param options [Hash] as Active Record takes them
    # @return [Class] a model whose connections bear the mark
    def model(**options) = connect(Databases.config(@name).merge(options))

    # The same through a proxy.
    def model_through(proxy, **options) = connect(tcp_config(proxy.port).merge(options))

    # The address that a proxy forwards to.
    def address = ["127.0.0.1", kind.shared.port]

    # Statements that take a lock contain this.
    def lock_word = postgresql? ? "advisory" : "GET_LOCK"

    # @return [Array<Integer>] the marked connections that the server has
    def connections
      sql = "SELECT id FROM information_schema.PROCESSLIST WHERE db = '#{@mark}'"
      sql = "SELECT pid FROM pg_stat_activity WHERE application_name = '#{@mark}'" if postgresql?
      admin.select_values(sql)
    end

    # Has the server close all marked connections.
    def cut
      kill = postgresql? ? "SELECT pg_terminate_backend(%d)" : "KILL %d"
      connections.each { |id| admin.execute(format(kill, id)) }
    end

    # As long as the server takes for it.
    def pause(seconds)
      admin.select_value("SELECT #{"1 FROM pg_" if postgresql?}sleep(#{seconds})")
    end

    private

    def kind = postgresql? ? Postgres : Mariadb

    def tcp_config(port)
      return kind.shared.tcp_config(port: port, prepared_statements: false) if postgresql?

      kind.shared.tcp_config(@name.to_s, port: port)
    end

    def connect(config)
      mark = postgresql? ? { application_name: @mark } : { database: @mark }
      Databases.connect("Marked#{SecureRandom.hex(6)}", config.merge(mark))
    end
  end
end
