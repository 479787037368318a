# frozen_string_literal: true

require "active_record"
require "active_support/notifications"
require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    class Database
      # One connection that only this store uses. Active Record's adapter opens it; the store then
      # talks to the driver directly, so that every answer has a deadline. Active Record's
      # transactions, query cache, roles and pinning do not apply to it. Subscribers of
      # `sql.active_record` still see its statements.
      #
      # In statements, `$1`, `$2` … stand for the bound values.
      #
      # @api private
      class Connection
        # The result of a statement: its rows, the number of rows that it affected, and on MySQL
        # the argument of LAST_INSERT_ID.
        Answer = Struct.new(:rows, :count, :id) do
          def row = rows.first

          def value = rows.dig(0, 0)
        end

        EVENT = "sql.active_record"

        # How many seconds the server may take to report the session id of a new connection.
        START_S = 1.0

        # Seconds to wait for the rest of an abandoned answer. A rollback may take as long again.
        DRAIN_S = 0.05

        # A failed statement that may succeed if it is sent again.
        class Again < UnavailableError
          private

          def default_code = :busy
        end

        # @return [Symbol, nil] why a server has refused a connection: `:login`, `:no_database`;
        #   nil: another reason, which may be temporary
        def self.refusal(_error) = nil

        # Changes the model's settings to those with which Active Record opens a connection.
        def self.settings(hash) = hash

        # @param adapter [ActiveRecord::ConnectionAdapters::AbstractAdapter] connected
        # @yieldreturn [Object] another adapter for the same database
        def initialize(adapter, &another)
          @adapter = adapter
          @another = another
          @raw = adapter.raw_connection
          @busy = false # true from sending a statement to the end of its answer
          @batching = false # true from the start of a batch to its commit or rollback
          @spoilt = false
        end

        # @param deadline [Float] a time of {Clock}
        def run(sql, *binds, deadline)
          telling(sql) { perform(sql, binds, deadline) }
        rescue *self.class.failures => e
          @busy = false if answered?(e)
          raise failure(e)
        end

        # Runs statements in one transaction. Except on MySQL, the server does not wait for this
        # process between two statements, so a process that is stopped holds no row locks.
        #
        # @param statements [Array<String>] `$key` stands for `binds[:key]`; one of the statements
        #   returns rows
        # @param types [String] the types of the columns in these rows: `s` for text, `i` for an
        #   integer
        # @raise [Error] If a statement failed, none of the statements has taken effect. If the
        #   answer was lost, all of them may have taken effect.
        def batch(statements, binds, types, deadline)
          telling(statements.join("; ")) do
            @batching = true
            rows = perform_batch(statements.map { |sql| fill(sql, binds) }, types, deadline)
            @batching = false
            rows
          end
        rescue *self.class.failures => e
          roll_back if answered?(e)
          raise failure(e)
        end

        def literal(value)
          case value
          when nil then "NULL"
          when Integer then value.to_s
          else "'#{escape(value)}'"
          end
        end

        # Can the connection be used again? This also checks its socket.
        def usable? = finished? && alive?

        # Waits a moment for the rest of an outstanding answer, and rolls back the transaction of an
        # interrupted batch.
        #
        # @return [Boolean] is the connection neither broken, nor busy, nor in a transaction?
        def finished?
          return false if @spoilt

          @busy = !recovered? if @busy
          roll_back(DRAIN_S) if @batching && !@busy
          !@busy
        end

        # @return [IO, nil] the connection's socket; nil: the driver does not expose it
        def socket = nil

        # Does the server still keep this idle connection open? The caller must mask interrupts.
        def lives? = !@spoilt && alive?

        def busy? = @busy

        # Marks the connection as broken: it must not be used again.
        def spoil
          @spoilt = true
        end

        def close
          @adapter.disconnect!
        rescue *self.class.failures, SystemCallError, IOError
          nil # the connection is gone
        end

        # Forgets a connection of the parent process, and sends nothing to the server.
        def discard
          @adapter.discard!
        end

        ROLLBACK_S = 0.5
        private_constant :ROLLBACK_S

        private

        def fill(sql, binds) = sql.gsub(/\$(\w+)/) { literal(binds.fetch($1.to_sym)) }

        # Like {#fill}, for `$1`, `$2` …
        def fill_places(sql, binds) = sql.gsub(/\$(\d+)/) { literal(binds[$1.to_i - 1]) }

        def escape(text) = @raw.escape(text)

        def roll_back(seconds = ROLLBACK_S)
          in_transaction? ? run("ROLLBACK", Clock.now + seconds) : @busy = false
          @batching = false
        rescue Error, IOError, SystemCallError
          @busy = true # the connection's state is unknown
        end

        def in_transaction? = true

        # Did the rest of an abandoned answer arrive within a moment?
        def recovered? = false

        def telling(sql)
          return yield unless ActiveSupport::Notifications.notifier.listening?(EVENT)

          payload = {
            sql: sql, name: "Plock", binds: [], type_casted_binds: [], connection: @adapter
          }
          started = false
          begin
            Interrupts.defer { (started = true) && tell(:start, payload) }
            yield
          ensure
            Interrupts.defer { tell(:finish, payload) if started }
          end
        end

        # An error of a subscriber is logged, and does not affect the statement.
        def tell(what, payload)
          ActiveSupport::Notifications.instrumenter.public_send(what, EVENT, payload)
        rescue StandardError, ScriptError => e
          Log.failure(nil, "a subscriber to #{EVENT}", e)
        end

        # Called when the whole answer has arrived.
        def answer(rows, count, id = nil)
          @busy = false
          Answer.new(rows, count, id)
        end

        def left_until(deadline)
          [deadline - Clock.now, 0.001].max
        end

        def late
          spoil
          UnavailableError.new("the database has not answered in time", code: :timed_out)
        end

        # Only the first line of the message, because the other lines may quote bound values.
        def words(error)
          "#{error.class}: #{error.message.lines.first&.strip}"
        end

        def unavailable(error, code = :io) = UnavailableError.new(words(error), code: code)

        # A server may be read-only since a failover. A new connection may reach another server.
        def read_only(error)
          spoil
          unavailable(error)
        end

        def again(error) = Again.new(words(error))

        def forbidden(error) = PermissionError.new(words(error))

        def missing_table(error)
          advice = "run `rails generate plock:database` and the migration"
          ConfigurationError.new("#{words(error)} (#{advice})")
        end
      end
    end
  end
end
