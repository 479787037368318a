# frozen_string_literal: true

require "plock/store/database"

module WithTransactionalLock
  # The locks on PostgreSQL. Each lock is a transaction-level advisory lock, and is acquired in one
  # round trip.
  #
  # If a transaction is already open, the request sets a savepoint first. If the lock is not
  # acquired, the transaction is rolled back to the savepoint.
  #
  # @api private
  module Postgresql
    NAME = "Transactional Lock"
    SAVEPOINT = "plock_transactional_lock"
    KEPT = "plock.lock_timeout"

    # The range of lock_timeout in milliseconds, up to 24 days. 0 would mean no limit.
    LIMITS_MS = (1..2_147_483_647).freeze

    private_constant :NAME, :SAVEPOINT, :KEPT, :LIMITS_MS

    class << self
      # @return [Boolean] whether the call joins an open transaction
      def prepare(_model, connection, _request) = connection.current_transaction.joinable?

      # @param joined [Boolean] the result of {prepare}
      def lock(connection, request, joined)
        return try(connection, request) if request.timeout&.zero?

        sql = if joined
                request.statement(:joined) { behind_savepoint(request) }
              else
                request.statement(:alone) { comment(request) + waiting(request) }
              end
        connection.execute(sql, NAME)
        done = true
      rescue ActiveRecord::LockWaitTimeout
        raise unless request.timeout

        raise request.late
      ensure
        go_back(connection) if joined && !done && !request.timeout&.zero?
      end

      private

      def function(kind, request) =
        "pg_#{kind}advisory_xact_lock#{"_shared" if request.shared}(#{request.id})"

      # Uses exec_query, which bypasses the query cache, so that each call asks the database.
      def try(connection, request)
        sql = "#{comment(request)}SELECT #{function("try_", request)}"
        connection.exec_query(sql, NAME).rows.dig(0, 0) or raise request.late
      end

      def behind_savepoint(request) = "#{comment(request)}SAVEPOINT #{SAVEPOINT}; " \
                                      "#{waiting(request)}; RELEASE SAVEPOINT #{SAVEPOINT}"

      def comment(request) = "/* lock:#{request.comment} */ "

      # Saves the caller's lock_timeout in a setting of the transaction, and restores it after the
      # lock is acquired.
      def waiting(request)
        sql = "SELECT #{function("", request)}"
        return sql unless request.timeout

        limit = (request.timeout * 1000).ceil.clamp(LIMITS_MS)
        "SELECT set_config('#{KEPT}', current_setting('lock_timeout'), true), " \
          "set_config('lock_timeout', '#{limit}', true); " \
          "#{sql}; SELECT set_config('lock_timeout', current_setting('#{KEPT}'), true)"
      end

      # Returns the caller's transaction to its state before the call, with two exceptions. If an
      # interrupt came after the lock was granted, the transaction keeps the lock. If the
      # connection is lost, so is the transaction.
      def go_back(connection)
        Thread.handle_interrupt(Plock::UNINTERRUPTED) do
          require "plock/store/database/postgresql"
          raw = connection.raw_connection
          Plock::Store::Database::Postgresql.stop_asking(raw)
          next unless raw.transaction_status == PG::PQTRANS_INERROR

          connection.execute(
            "ROLLBACK TO SAVEPOINT #{SAVEPOINT}; RELEASE SAVEPOINT #{SAVEPOINT}", NAME
          )
        end
      rescue ActiveRecord::ActiveRecordError, PG::Error
        nil # the caller receives the exception that made this rollback necessary
      end
    end
  end
end
