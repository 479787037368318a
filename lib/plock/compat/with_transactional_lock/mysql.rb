# frozen_string_literal: true

require "concurrent/map"

module WithTransactionalLock
  # MySQL and MariaDB: a row of a table, whose lock ends with the transaction.
  #
  # Names must not block one another, so that no lock may be on more than the one row. That is so where the table is sorted by the
  # numbers, as the generator makes it: with an index beside the table, the gap before the row is locked as well. It is not so for who
  # waits for a row that is new, and is rolled back then. So a row is committed before it is locked for the first time.
  #
  # @api private
  module Mysql
    NAME = "Transactional Lock"
    TABLE = "transactional_advisory_locks"

    # Rows of which a process remembers that they are there.
    KNOWN_MAX = 10_000

    # MariaDB's word for a statement that took too long.
    TOO_LONG = 1969

    # What either says of a row that somebody else has, and that is not to be waited for.
    BUSY = [1205, 3572].freeze

    private_constant :NAME, :KNOWN_MAX, :TOO_LONG, :BUSY

    @known = Concurrent::Map.new # of each database, the rows that are there

    class << self
      # Before a transaction of ours begins, so that no snapshot is made.
      #
      # @return [void]
      def prepare(connection, request)
        return if connection.transaction_open?

        rows = @known.compute_if_absent(connection.pool.db_config) { Concurrent::Map.new }
        return if rows.key?(request.id)

        done = false
        rows.clear if rows.size >= KNOWN_MAX
        rows[request.id] = true if there?(connection, request) || made?(connection, request)
        done = true
      rescue ActiveRecord::ActiveRecordError
        done = true
        raise
      ensure
        connection.throw_away! if done == false # an answer is still to come
      end

      # @return [void]
      # @raise [Plock::TimeoutError]
      # @raise [Plock::UnsupportedError]
      def lock(connection, request, _joined)
        refuse_shared if request.shared
        return ask(connection, request, "") unless request.timeout

        within(connection, request) { |limit| ask(connection, request, limit) }
      end

      private

      def there?(connection, request)
        connection.exec_query("SELECT 1 FROM #{TABLE} WHERE lock_id = #{request.id}", NAME).any?
      end

      # Whoever inserts it at this moment has the lock, and is waited for later.
      def made?(connection, request)
        row = connection.exec_query("SELECT lock_id FROM #{TABLE} WHERE lock_id = #{request.id} FOR UPDATE NOWAIT", NAME)
        connection.execute("INSERT IGNORE INTO #{TABLE} (lock_id) VALUES (#{request.id})", NAME) if row.empty?
        true
      rescue ActiveRecord::StatementInvalid => e
        raise unless BUSY.include?(number_of(e.cause))

        false
      end

      def ask(connection, request, limit)
        connection.execute("#{limit}INSERT INTO #{TABLE} (lock_id) VALUES (#{request.id}) ON DUPLICATE KEY UPDATE lock_id = lock_id", NAME)
      end

      # MariaDB can limit one statement, MySQL a connection only.
      def within(connection, request, &block)
        connection.mariadb? ? yield(statement_limit(request)) : within_connection_limit(connection, request, &block)
      rescue ActiveRecord::LockWaitTimeout, ActiveRecord::StatementTimeout
        raise request.late
      rescue ActiveRecord::StatementInvalid => e
        raise unless number_of(e.cause) == TOO_LONG

        raise request.late
      end

      def statement_limit(request)
        return "SET STATEMENT innodb_lock_wait_timeout = 0 FOR " if request.timeout.zero?

        "SET STATEMENT max_statement_time = #{format("%.6f", request.timeout)} FOR "
      end

      def within_connection_limit(connection, request)
        before = connection.exec_query("SELECT @@SESSION.innodb_lock_wait_timeout", NAME).rows.dig(0, 0)
        connection.execute("SET SESSION innodb_lock_wait_timeout = #{[request.timeout.ceil, 1].max}", NAME)
        yield ""
      ensure
        connection.execute("SET SESSION innodb_lock_wait_timeout = #{before}", NAME) if before && connection.active?
      end

      def number_of(error)
        error.respond_to?(:error_number) ? error.error_number : (error.error_code if error.respond_to?(:error_code))
      end

      def refuse_shared
        raise Plock::UnsupportedError.new("MySQL has no shared transactional locks", code: :unsupported)
      end
    end
  end
end
