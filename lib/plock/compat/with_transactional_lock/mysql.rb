# frozen_string_literal: true

require "concurrent/map"
require "plock/store/database"

module WithTransactionalLock
  # MySQL and MariaDB: the lock of a table's row, which ends with the transaction.
  #
  # Names must not block one another, so a lock must cover one row only. That requires a table that
  # is sorted by the numbers, as the generator makes it: with a secondary index, the database would
  # also lock the gap before the row. A waiter for a new row would lock the gap, too, when the
  # insert of that row is rolled back. So a row is committed before it is locked for the first time.
  #
  # @api private
  module Mysql
    NAME = "Transactional Lock"
    TABLE = "transactional_advisory_locks"

    # Number of rows that a process remembers to exist.
    KNOWN_MAX = 10_000

    # MariaDB's error number for a statement that took too long.
    TOO_LONG = 1969

    # Seconds: the time of a statement that need not wait, and the longest limit of MariaDB.
    STATEMENT_S = (0.05..31_536_000.0).freeze

    # Seconds to make a row. If another process is making it, this one does not wait.
    MAKING_S = 1.0

    private_constant :NAME, :KNOWN_MAX, :TOO_LONG, :STATEMENT_S, :MAKING_S

    # The rows of one database that a process knows to exist, and a connection of its own that makes
    # new ones.
    Known = Struct.new(:rows, :connections)
    private_constant :Known

    @known = Concurrent::Map.new

    class << self
      # Commits the row before it is locked. This needs another connection, because the caller may
      # be in a transaction.
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

      # @return [Boolean] whether the row exists. The caller locks it in either case: if another
      #   process is inserting the row, that process holds the lock, and the caller waits for it.
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

      def insert(request) = "INSERT INTO #{TABLE} (lock_id) VALUES (#{request.id}) " \
                            "ON DUPLICATE KEY UPDATE lock_id = lock_id"

      # MariaDB can limit one statement; MySQL can limit only a connection.
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

      # The limit for locks has whole seconds, and the limit for statements is exact. The limit for
      # locks is a second longer, so that the exact one ends the wait.
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
