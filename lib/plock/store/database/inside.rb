# frozen_string_literal: true

require_relative "connection"

module Plock
  class Store
    class Database
      # The caller's connection, in the caller's transaction, with the interface of {Connection}.
      # Its statements become part of that transaction. A failed statement leaves the transaction as
      # it was, except when MySQL rolls back the whole transaction.
      #
      # @api private
      class Inside
        SAVEPOINT = "plock_inside"
        NAME = "Plock"
        private_constant :SAVEPOINT, :NAME

        # @param failures [Array<Class>] the error classes of the driver
        def initialize(adapter, failures)
          @adapter = adapter
          @failures = failures
          @mysql = adapter.adapter_name.match?(/mysql|trilogy/i)
          @postgresql = adapter.adapter_name.match?(/postg/i)
          @begun = @gone = @back = false
        end

        # Has MySQL rolled back the whole transaction, as after a deadlock?
        def transaction_gone? = @gone

        # @yield the block runs statements, which are rolled back if the block raises or returns nil
        def guarded
          savepoint("SAVEPOINT")
          @begun = true
          value = yield self
          kept = !value.nil?
          savepoint("RELEASE SAVEPOINT") if kept
          value
        rescue ActiveRecord::ActiveRecordError => e
          # if Active Record has wrapped an interrupt, raise the interrupt itself
          raise e.cause unless e.cause.nil? || @failures.any? { |kind| kind === e.cause }

          raise UnavailableError.new("#{e.class}: #{e.message.lines.first&.strip}", code: :io)
        ensure
          Interrupts.complete { go_back unless kept || @back }
        end

        # Like {Connection#run}, but only the settings of the caller's connection limit its time.
        def run(sql, *binds, _deadline)
          text = sql.gsub(/\$(\d+)/) { @adapter.quote(binds[$1.to_i - 1]) }
          if text.match?(/\A(?:SELECT|WITH)|RETURNING/)
            return Connection::Answer.new(@adapter.exec_query(text, NAME).rows, nil)
          end

          count = @adapter.update(text, NAME)
          Connection::Answer.new(
            [], count,
            (@adapter.exec_query("SELECT LAST_INSERT_ID()", NAME).rows.dig(0, 0) if @mysql)
          )
        end

        # Inside a transaction, PostgreSQL shows the list of its sessions as it was when the
        # transaction first read it. A waiter whose listener started later would seem to have
        # ended, so this discards that snapshot.
        def forget_sessions
          @adapter.execute("SELECT pg_stat_clear_snapshot()", NAME) if @postgresql
        end

        private

        def savepoint(word) = @adapter.execute("#{word} #{SAVEPOINT}", NAME)

        def go_back
          Postgresql.stop_asking(@adapter.raw_connection) if @postgresql
          savepoint("ROLLBACK TO SAVEPOINT")
          @back = true # a leftover savepoint does no harm, but a rollback to a missing one would
          savepoint("RELEASE SAVEPOINT")
        rescue ActiveRecord::ActiveRecordError, *@failures
          @gone = @mysql && @begun # MySQL has rolled back everything, and the savepoint with it
        end
      end
    end
  end
end
