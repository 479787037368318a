# frozen_string_literal: true

require "concurrent/map"
require "plock/store/database"

module WithTransactionalLock
  # The locks on MySQL and MariaDB. Each lock is a row lock in a table, and ends with the
  # transaction.
  #
  # Locks with different names must not block one another, so a lock must cover only one row. That
  # requires a table whose primary key is the lock's number, as plock's generator creates it. With a
  # secondary index instead, the database would also lock the gap before the row. Even with the
  # primary key, a waiter for a new row would lock such a gap if the row's insert were rolled back.
  # So a row is committed before it is locked for the first time.
  #
  # A cleanup may delete a row that this process remembers. The next caller for that lock then
  # inserts the row again in its own transaction. plock sees this in the database's answer, and
  # also commits the rows with the next lower and the next higher number. A waiter can lock only
  # the gap between these two rows, and that gap contains no other lock.
  #
  # @api private
  module Mysql
    NAME = "Transactional Lock"
    TABLE = "transactional_advisory_locks"

    # The maximum number of rows that a process remembers for each database.
    KNOWN_MAX = 10_000

    # MariaDB's error number for a statement that took too long.
    TOO_LONG = 1969

    # The range of MariaDB's limit for one statement, in seconds. The shortest limit is enough for
    # a statement that need not wait.
    STATEMENT_S = (0.05..31_536_000.0).freeze

    # The longest time to create a row, in seconds. If another process is creating the same row,
    # this process does not wait for it.
    MAKING_S = 1.0

    # The mask of an unsigned 64-bit number.
    UNSIGNED = (2**64) - 1

    private_constant :NAME, :KNOWN_MAX, :TOO_LONG, :STATEMENT_S, :MAKING_S, :UNSIGNED

    # The rows of one database that are known to exist, and a separate connection that creates new
    # rows.
    Known = Struct.new(:rows, :connections)
    private_constant :Known

    @known = Concurrent::Map.new

    class << self
      # Commits the row before it is locked. This needs another connection, because the caller may
      # be in a transaction.
      #
      # @return [Known] the known rows of the database
      def prepare(model, connection, request)
        known = known_of(model, connection)
        return known if known.rows[request.id]

        known.rows.clear if known.rows.size >= KNOWN_MAX
        known.rows[request.id] = true if made?(known.connections, request.id)
        known
      end

      # @param known [Known] the result of {prepare}
      def lock(connection, request, known)
        raise Plock::UnsupportedError, "MySQL has no shared transactional locks" if request.shared

        sql = request.statement(:insert) { insert(request) }
        asked = ->(limit) { inserted?(connection, request.id, limit + sql) }
        inserted = request.timeout ? within(connection, request, &asked) : asked.call("")
        fence(known, request.id) if inserted
      end

      # Forgets which rows exist, because a cleanup may have deleted any of them.
      def forget(connection)
        @known[connection.pool.db_config]&.rows&.clear
      end

      private

      # If the row existed, the last insert id in the answer is `lock_id ^ 1`, the argument of
      # LAST_INSERT_ID. Otherwise, the last insert id is 0 or the row's number. This method does not
      # call `raw_connection`, because that would change how Active Record treats the connection
      # afterwards.
      #
      # @return [Boolean] has the statement inserted the row?
      def inserted?(connection, id, sql)
        connection.execute(sql, NAME)
        client = connection.instance_variable_get(:@raw_connection)
        told = client.respond_to?(:last_id) ? client.last_id : client.last_insert_id
        told != (id ^ 1) & UNSIGNED
      end

      # Commits the rows with the numbers before and after the row that the caller has inserted.
      # The caller's row was missing because a cleanup deleted it, or because another process
      # rolled its insert back.
      def fence(known, id)
        known.rows.delete(id)
        deadline = Plock::Clock.now + MAKING_S
        known.connections.with(deadline) do |other|
          other.run(
            "INSERT IGNORE INTO #{TABLE} (lock_id) VALUES (#{id - 1}), (#{id + 1})", deadline
          )
        end
      rescue Plock::Error
        nil # without these neighbours, callers for other locks at worst wait longer
      end

      def known_of(model, connection)
        @known[connection.pool.db_config] || @known.compute_if_absent(connection.pool.db_config) do
          origin = Plock::Store::Database::ConnectionSource.new(model)
          Known.new(
            Concurrent::Map.new, Plock::Store::Database::Connections.new(origin, 1, MAKING_S)
          )
        end
      end

      # Creates the row if it is missing. If this fails, the caller locks the row anyway. It fails,
      # for example, while another process is inserting the row. That process holds the lock, so
      # the caller waits for it.
      #
      # @return [Boolean] whether the row exists and is committed
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

      # If the row exists, the statement only locks it.
      def insert(request) =
        "INSERT INTO #{TABLE} (lock_id) VALUES (#{request.id}) " \
        "ON DUPLICATE KEY UPDATE lock_id = IF(LAST_INSERT_ID(lock_id ^ 1), lock_id, lock_id)"

      # MariaDB can limit the wait of one statement. MySQL can limit only the waits of a whole
      # connection, so plock changes that limit for one statement and then restores it.
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

      # The limit for lock waits is in whole seconds, and the limit for statements is exact. The
      # limit for lock waits is set at least one second longer, so that the exact limit ends the
      # wait.
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
