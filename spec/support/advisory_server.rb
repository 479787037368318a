# frozen_string_literal: true

require "securerandom"
require "support/databases"

module Support
  # A database server that marks the connections of one example, so that the example can count
  # them and cut them.
  class AdvisoryServer
    NAMES = %i[postgresql mysql2 trilogy].freeze

    # @param name [Symbol] one of NAMES
    def initialize(name)
      @name = name
      @mark = "marked_#{SecureRandom.hex(6)}"
      admin.execute("CREATE DATABASE #{@mark}") unless postgresql?
    end

    def postgresql? = @name == :postgresql

    # A connection for the example itself, without the mark.
    def admin = Databases.model(@name).lease_connection

    # @param options [Hash] further settings of Active Record
    # @return [Class] a model whose connections have the mark
    def model(**options) = connect(Databases.config(@name).merge(options))

    # @return [Class] a model whose connections have the mark and run through a proxy
    def model_through(proxy, **options) = connect(tcp_config(proxy.port).merge(options))

    # The address to which a proxy must forward.
    def address = ["127.0.0.1", kind.shared.port]

    # A word that is in every statement that takes a lock.
    def lock_word = postgresql? ? "advisory" : "GET_LOCK"

    # @return [Array<Integer>] the ids of the marked connections that are open
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

    # Waits this many seconds, in a statement on the example's own connection.
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
