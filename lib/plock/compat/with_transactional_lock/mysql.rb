# frozen_string_literal: true

require "concurrent/map"
require "plock/store/database"

module WithTransactionalLock
  # MySQL and MariaDB: a row of a table, whose lock ends with the transaction.
  #
  # Names must not block one another, so that no lock may be on more than the one row. That is so
  # where the table is sorted by the numbers, as the generator makes it: with an index beside the
  # table, the gap before the row is locked as well. It is not so for who waits for a row that is
  # new, and is rolled back then. So a row is committed before it is locked for the first time.
  #
  # @api private
  module Mysql
    NAME = "Transactional Lock"
    TABLE = "transactional_advisory_locks"

    # Rows of which a process remembers that they are there.
    KNOWN_MAX = 10_000

    # MariaDB's word for a statement that took too long.
    TOO_LONG = 1969

    # Seconds: what a statement needs that waits for nobody, and what MariaDB takes for a limit.
    STATEMENT_S = (0.05..31_536_000.0).freeze

    # Seconds for making a row, which is not waited for where somebody is just making it.
    MAKING_S = 1.0

    private_constant :NAME, :KNOWN_MAX, :TOO_LONG, :STATEMENT_S, :MAKING_S

    # The rows that a process knows to be there in one database, and connections beside those of the
    # application, for making more.
    Known = Struct.new(:rows, :connections)
    private_constant :Known

    @known = Concurrent::Map.new

    class << self
      # Has the row committed before it is locked: over another connection, for the caller may be in
      # a transaction.
      def prepare(model, connection, request)
        known = known_of(model, connection)
        return if known.rows[request.id]

        known.rows.clear if known.rows.size >= KNOWN_MAX
        known.rows[request.id] = true if made?(known.connections, request.id)
      end

      def lock(connection, request, _prepared)
        raise Plock::UnsupportedError, "MySQL has no shared transactional locks" if request.shared
        unless request.timeout
          return connection.execute(request.statement(:insert) { insert(request) }, NAME)
        end

        within(connection, request) { |limit| connection.execute(limit + insert(request), NAME) }
      end

      private

      def known_of(model, connection)
        @known[connection.pool.db_config] || @known.compute_if_absent(connection.pool.db_config) do
          origin = Plock::Store::Database::ConnectionSource.new(model)
          Known.new(
            Concurrent::Map.new, Plock::Store::Database::Connections.new(origin, 1, MAKING_S)
          )
        end
      end

      # Where it could not be made, it is locked all the same. Whoever inserts it at this moment has
      # the lock, and is waited for then.
      def made?(connections, id)
        deadline = Plock::Clock.now + MAKING_S
        connections.with(deadline) do |other|
          next true if other.run("SELECT 1 FROM #{TABLE} WHERE lock_id = #{id}", deadline).rows.any?

          other.run("SELECT 1 FROM #{TABLE} WHERE lock_id = #{id} FOR UPDATE NOWAIT", deadline)
          other.run("INSERT IGNORE INTO #{TABLE} (lock_id) VALUES (#{id})", deadline)
          true
        end
      rescue Plock::Error
        false
      end

      def insert(request) = "INSERT INTO #{TABLE} (lock_id) VALUES (#{request.id}) ON DUPLICATE KEY UPDATE lock_id = lock_id"

      # MariaDB can limit one statement, MySQL a connection only.
      def within(connection, request, &block)
        if connection.mariadb?
          yield(statement_limit(request))
        else
          within_connection_limit(connection, request, &block)
        end
      rescue ActiveRecord::LockWaitTimeout, ActiveRecord::StatementTimeout
        raise request.late
      rescue ActiveRecord::StatementInvalid => e
        raise unless Plock::Store::Database::Mysql.number_of(e.cause) == TOO_LONG

        raise request.late
      end

      # Locks are waited for in whole seconds, and statements as exactly as is asked for; the one
      # limit is not to come before the other.
      def statement_limit(request)
        return "SET STATEMENT innodb_lock_wait_timeout = 0 FOR " if request.timeout.zero?

        format("SET STATEMENT innodb_lock_wait_timeout = %d, max_statement_time = %.6f FOR ",
               request.timeout.ceil + 1, request.timeout.clamp(STATEMENT_S))
      end

      def within_connection_limit(connection, request)
        before =
          connection.exec_query("SELECT @@SESSION.innodb_lock_wait_timeout", NAME).rows.dig(0, 0)
        connection.execute(
          "SET SESSION innodb_lock_wait_timeout = #{[request.timeout.ceil, 1].max}", NAME
        )
        yield ""
      ensure
        if before && connection.active?
          connection.execute("SET SESSION innodb_lock_wait_timeout = #{before}", NAME)
        end
      end
    end
  end
end
