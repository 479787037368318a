# frozen_string_literal: true

require "active_record/connection_adapters/postgresql_adapter"
require_relative "../support/aside"
require_relative "connection"

module Plock
  class Store
    class Database
      # @api private
      class Postgresql < Connection
        # Failures that a retry resolves: a deadlock, a conflict between transactions, or a lock
        # wait or a statement that took longer than the server allows.
        CONFLICTS = %w[40001 40P01 55P03 57014].freeze

        FORBIDDEN = "42501"
        MISSING = "42P01"
        READ_ONLY = "25006"

        # Seconds that a request to cancel a statement may take. This and STOP_S are less than a
        # second, the least connect_timeout. If a cancel request takes longer than that timeout, pg
        # 1.7.0 raises a NoMethodError.
        CANCEL_S = 0.5

        # How many seconds the server may take to end a statement whose caller no longer waits.
        STOP_S = 0.9

        # In milliseconds. A statement that waits for a locked row fails after this time, and is
        # sent again after a pause. During the pause, other requests can use the connection.
        LOCK_WAIT_MS = 100

        # The first byte of the message with which the server ends the connection.
        FATAL = "E"

        # When a connection is refused, libpq reports no SQLSTATE. So {.refusal} finds the reason by
        # the words of the message. The server's messages begin with a severity and then say what is
        # refused. The patterns match whichever role or database a message names. The messages are
        # in src/backend/libpq/auth.c and utils/init/postinit.c, with lc_messages = C or English.
        REFUSALS = {
          Regexp.union(
            /FATAL: +\S+ authentication failed/,
            /FATAL: +no pg_hba\.conf entry/,
            /FATAL: +role ".*" (?:does not exist|is not permitted to log in)/,
            /FATAL: +pg_hba\.conf rejects/,
            /fe_sendauth: no password supplied/
          ) => :login,
          Regexp.union(
            /FATAL: +database ".*" does not exist/,
            /FATAL: +permission denied for database/,
            /FATAL: +no such database/
          ) => :no_database
        }.freeze

        def self.refusal(error)
          REFUSALS.find { |words, _| words.match?(error.message) }&.last
        end

        # With these values, the operating system notices after about 11 seconds that the other
        # machine is gone.
        KEEPALIVES = { keepalives_idle: 5, keepalives_interval: 2, keepalives_count: 3 }.freeze

        def self.settings(hash) = { **KEEPALIVES, **hash }

        # Statements that may wait for a row that another transaction has locked.
        WRITES = /\A(?:INSERT|UPDATE|DELETE|WITH)/.freeze

        def self.failures = [PG::Error]

        # Stops a statement that the server still runs for an interrupted caller. If the server does
        # not answer the cancel request in time, this cuts the connection.
        #
        # @param raw [PG::Connection]
        def self.stop_asking(raw)
          return unless raw.transaction_status == PG::PQTRANS_ACTIVE

          stopped = Aside.run(STOP_S) do
            raw.cancel
            raw.discard_results
          end
          raw.socket_io.shutdown unless stopped
        end

        def initialize(adapter, &another)
          super
          @raw.set_notice_processor { nil } # ignores notices: errors are raised anyway
          limit_lock_waits
          @names = ({} if adapter.prepared_statements && !@pooled)
          @named = 0
        end

        def in_transaction? = @raw.transaction_status != PG::PQTRANS_IDLE

        # @return [Integer] the server process that was reported when the connection was made; a
        #   pooler between this process and the server reports a number of its own
        def server_id = @raw.backend_pid

        def socket = @raw.socket_io

        # Lifts the server's time limit for idle sessions, because this session may hold a lock.
        def stay_open(deadline)
          unless @stays_open || @raw.server_version < 140_000
            run("SET idle_session_timeout = 0", deadline)
          end
          @stays_open = true
        end

        # Begins a transaction, and runs the first statement in it, in one request. The server's
        # limits for idle transactions do not apply to this transaction.
        def run_in_open_transaction(sql, *binds, deadline)
          run("ROLLBACK", deadline) if in_transaction? # a failed attempt left it open
          telling(sql) do
            rows, = carry_out(
              ["BEGIN", *no_limits_of_idleness, fill_places(sql, binds)], deadline
            )
            answer(rows, 0)
          end
        rescue *self.class.failures => e
          @busy = false if answered?(e)
          raise failure(e)
        end

        # Data to read does not always mean that the server ends the connection. The server may
        # also send a notice or a changed setting without a request.
        def lives?
          return false if @spoilt || @raw.status != PG::CONNECTION_OK

          word = socket.recv_nonblock(1, Socket::MSG_PEEK, exception: false)
          word == :wait_readable || (!word.nil? && !word.empty? && word != FATAL)
        rescue *self.class.failures, IOError, SystemCallError
          false
        end

        # Sleeps until a notification arrives on a channel that this connection listens to.
        #
        # @return [String, nil] its payload; nil: nothing has arrived in time
        def hear(seconds)
          @raw.wait_for_notify(seconds) { |_channel, _pid, payload| return payload }
          nil
        rescue *self.class.failures => e
          raise failure(e)
        end

        # If a statement is running, this asks the server to stop it. Without this request, a
        # statement that waits for another transaction would be carried out after that transaction.
        def close
          return super if !@busy || Background.over? # at exit, the cancel could hang

          Aside.start do
            Aside.run(CANCEL_S) { @raw.cancel }
            super
          end
        end

        private

        def begin_sql = "BEGIN ISOLATION LEVEL READ COMMITTED"

        # A pooler may lend this session, with its settings and prepared statements, to other
        # clients. So behind a pooler, each write is a transaction of its own, which sets
        # `lock_timeout` only for itself.
        def limit_lock_waits
          deadline = Clock.now + START_S
          @pooled = run("SELECT pg_backend_pid()", deadline).value != server_id
          run("SET lock_timeout = #{LOCK_WAIT_MS}", deadline) unless @pooled
        end

        def no_limits_of_idleness
          limits = ["idle_in_transaction_session_timeout"]
          limits << "transaction_timeout" if @raw.server_version >= 170_000
          limits.map { |name| "SET LOCAL #{name} = 0" }
        end

        def perform_batch(statements, _types, deadline) = commit(statements, deadline).rows

        # @return [Connection::Answer] the rows that one of the statements returned, and how many
        #   rows the last statement before COMMIT affected
        def commit(statements, deadline)
          rows, counts =
            carry_out(
              [begin_sql, "SET LOCAL lock_timeout = #{LOCK_WAIT_MS}", *statements, "COMMIT"],
              deadline
            )
          answer(rows, counts[-2])
        end

        # Runs one statement in a transaction of its own, and rolls the transaction back if the
        # statement fails.
        def commit_alone(sql, deadline)
          commit([sql], deadline)
        rescue *self.class.failures => e
          roll_back if answered?(e)
          raise
        end

        # @return [Array(Array, Array)] the rows of the last statement that returns some, and how
        #   many rows each statement affected
        def carry_out(statements, deadline)
          @busy = true
          @raw.send_query(statements.join("; "))
          rows = []
          counts = []
          finish(deadline) do |result|
            rows = result.values if result.nfields.positive?
            counts << result.cmd_tuples
          end.clear
          [rows, counts]
        end

        def escape(text) = @raw.escape_string(text)

        def perform(sql, binds, deadline)
          if @pooled && WRITES.match?(sql)
            return commit_alone(fill_places(sql, binds), deadline)
          elsif @names && binds.any?
            name = @names[sql] || prepare(sql, deadline)
            @busy = true
            @raw.send_query_prepared(name, binds)
          else
            @busy = true
            @raw.send_query_params(sql, binds)
          end
          result = finish(deadline)
          answer(result.values, result.cmd_tuples)
        ensure
          result&.clear
        end

        # Uses no name twice, because after an interrupt it is unknown whether the prepared
        # statement exists.
        def prepare(sql, deadline)
          name = "plock#{@named += 1}"
          @busy = true
          @raw.send_prepare(name, sql)
          finish(deadline).clear
          @names[sql] = name
        end

        # Reads the whole answer, unless the deadline passes first.
        def finish(deadline)
          last = failed = nil
          loop do
            raise late unless @raw.block(left_until(deadline))

            result = @raw.get_result or break
            failed ||= result if result.result_status == PG::PGRES_FATAL_ERROR
            yield result if block_given? && !failed
            last&.clear unless last.equal?(failed)
            last = result
          end
          failed&.check
          last.check
          last
        end

        # If there is data to read although nothing was requested, the server may be ending the
        # connection, so the connection is not used again. This does not wait for the socket, so no
        # other thread runs in the meantime.
        def alive?
          @raw.status == PG::CONNECTION_OK &&
            socket.recv_nonblock(1, Socket::MSG_PEEK, exception: false) == :wait_readable
        rescue *self.class.failures, IOError, SystemCallError
          false
        end

        # Most statements end within a moment. A longer one is abandoned together with its
        # connection.
        def recovered?
          deadline = Clock.now + DRAIN_S
          while @raw.block(left_until(deadline))
            result = @raw.get_result or
              return !in_transaction? || !run("ROLLBACK", Clock.now + DRAIN_S).nil?
            result.clear
          end
          false
        rescue *self.class.failures, UnavailableError, IOError, SystemCallError
          false
        end

        # Has the server refused the statement, and is the connection ready for the next one?
        def answered?(error)
          !error.result.nil? && @raw.transaction_status != PG::PQTRANS_ACTIVE &&
            @raw.status == PG::CONNECTION_OK
        end

        def failure(error)
          case state = error.result&.error_field(PG::Result::PG_DIAG_SQLSTATE)
          when *CONFLICTS then again(error)
          when FORBIDDEN then forbidden(error)
          when MISSING then missing_table(error)
          when READ_ONLY then read_only(error)
          when nil, /\A(?:08|53|57|58|25)/ then unavailable(error)
          else ProtocolError.new("#{words(error)} (#{state})", code: :server_error)
          end
        end
      end
    end
  end
end
