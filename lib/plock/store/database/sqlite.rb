# frozen_string_literal: true

require "active_record/connection_adapters/sqlite3_adapter"
require_relative "connection"

module Plock
  class Store
    class Database
      # While SQLite runs a statement, no other Ruby thread runs, so the statement cannot be
      # interrupted. While another connection writes, this connection waits in short sleeps, so that
      # other threads can run.
      #
      # @api private
      class Sqlite < Connection
        SLEEPS_S = (0.001..0.02).freeze

        # The exception for each of SQLite's result codes (https://www.sqlite.org/rescode.html).
        FAILURES = {
          3 => SQLite3::PermissionException, 5 => SQLite3::BusyException,
          6 => SQLite3::LockedException, 8 => SQLite3::ReadOnlyException,
          10 => SQLite3::IOException, 11 => SQLite3::CorruptException, 13 => SQLite3::FullException,
          14 => SQLite3::CantOpenException, 23 => SQLite3::AuthorizationException
        }.freeze

        def self.failures = [SQLite3::Exception]

        def initialize(adapter, &another)
          super
          @statements = {}
          @deadline = Clock.now
          @raw.busy_handler(&method(:wait_for_others))
        end

        def close
          @statements.each_value(&:close)
          super
        end

        # SQLite would truncate a string at its first NUL, so a string with a NUL is written as
        # bytes.
        def literal(value)
          return super unless value.is_a?(String) && value.include?("\0")

          "CAST(X'#{value.unpack1("H*")}' AS TEXT)"
        end

        private

        def begin_sql = "BEGIN IMMEDIATE"

        # Masks interrupts, because an exception must not pass through SQLite's own code.
        def perform(sql, binds, deadline)
          Thread.handle_interrupt(UNINTERRUPTED) do
            begin_statement(deadline)
            # statements without bound values differ each time, so they are not kept
            next @raw.prepare(sql) { |one| apart { stepped(one) } } if binds.empty?

            statement = @statements[sql] ||= @raw.prepare(sql.gsub("$", "?"))
            statement.bind_params(*binds.map { |value| text(value) })
            apart { stepped(statement) }
          rescue SQLite3::BusyException
            raise @cut_off || $!
          ensure
            statement&.reset!
          end
        end

        # Makes one call to SQLite, so that no other Ruby code runs while the batch holds the
        # database's lock.
        def perform_batch(statements, types, deadline)
          Thread.handle_interrupt(UNINTERRUPTED) do
            begin_statement(deadline)
            rows = @raw.execute_batch2([begin_sql, *statements, "COMMIT"].join("; "))
            rows.map do |row|
              (row.is_a?(Hash) ? row.values : row)
                .zip(types.chars)
                .map { |value, type| type == "i" ? value&.to_i : value }
            end
          rescue RuntimeError => e # execute_batch2 raises this for any failure
            raise @cut_off if @cut_off

            raise FAILURES.fetch(@raw.errcode & 0xFF, SQLite3::SQLException), e.message
          end
        end

        def escape(value) = text(value).gsub("'", "''")

        # In an `at_exit` block, `$!` is the exception that ends the process. The sqlite3 gem takes
        # it for an error of a callback, and raises it after a step. In a new fiber, `$!` is nil.
        def apart(&block) = $! ? Fiber.new(blocking: true, &block).resume : yield

        def stepped(statement)
          rows = []
          while (row = statement.step)
            rows << row
          end
          answer(rows, @raw.changes)
        end

        # A binary String would become a BLOB, which never equals a text.
        def text(value)
          if value.is_a?(String) && value.encoding == Encoding::BINARY
            value.dup.force_encoding(Encoding::UTF_8)
          else
            value
          end
        end

        def begin_statement(deadline)
          @deadline = deadline
          @cut_off = nil
        end

        # SQLite calls this method while it holds a mutex of the connection. If the method raised an
        # exception, the mutex would stay locked. A signal handler can raise an exception here in
        # spite of any mask. So this method only keeps the exception, and the caller raises it after
        # SQLite has returned.
        def wait_for_others(count)
          return false if Clock.now >= @deadline || Thread.pending_interrupt?

          sleep([SLEEPS_S.begin * (count + 1), SLEEPS_S.end].min)
          true
        rescue Exception => e # rubocop:disable Lint/RescueException
          @cut_off = e
          false
        end

        def in_transaction? = @raw.transaction_active?

        def alive? = !@raw.closed?

        def answered?(_error) = true

        def failure(error)
          case error
          when SQLite3::BusyException, SQLite3::LockedException
            again(error)
          when SQLite3::SQLException
            if error.message.start_with?("no such table")
              missing_table(error)
            else
              ProtocolError.new(words(error), code: :server_error)
            end
          when SQLite3::ReadOnlyException, SQLite3::PermissionException,
               SQLite3::AuthorizationException
            forbidden(error)
          else
            unavailable(error)
          end
        end
      end
    end
  end
end
