# frozen_string_literal: true

require "active_record"
require_relative "../../errors"
require_relative "tables"

module Plock
  class Store
    class Database
      # The source of a store's connections: the database of an Active Record class. It also knows
      # the kind of database.
      #
      # @api private
      class ConnectionSource
        # For each adapter of Active Record, the files with its connection and its tables. They
        # need a driver, so only those of the database in use are loaded. They are not autoloaded,
        # because an interrupt at the end of an autoload leaves the constant undefined for good.
        KINDS = {
          "PostgreSQL" => %w[postgresql postgresql_tables],
          "PostGIS" => %w[postgresql postgresql_tables], "Mysql2" => %w[mysql2 mysql_tables],
          "Trilogy" => %w[trilogy mysql_tables], "SQLite" => %w[sqlite sqlite_tables]
        }.freeze

        # Names of databases in memory, which only the connection that opened them can see.
        IN_MEMORY = /\A(:memory:|file::memory:.*|file:.*mode=memory.*|)\z/.freeze

        # Learns how a transaction has ended. To Active Record, an Outcome looks like a record that
        # was saved in the transaction. So Active Record notifies the Outcome of the transaction's
        # end, and the Outcome calls exactly one of its three blocks.
        class Outcome
          def initialize(rolled_back, committed, unknown)
            @rolled_back = rolled_back
            @committed = committed
            @unknown = unknown
            @committing = @over = false
          end

          # If Active Record has begun to commit, the database may have committed already.
          def rolledback!(**) = over(@committing ? @unknown : @rolled_back)

          def committed!(**) = over(@committed)

          def unknown! = over(@unknown)

          def before_committed!(*) = @committing = true

          def trigger_transactional_callbacks? = true

          def destroyed? = false

          def _new_record_before_last_commit = false

          def over? = @over

          private

          def over(block)
            Thread.handle_interrupt(UNINTERRUPTED) do
              next if @over

              @over = true
              block.call
            end
          end
        end

        # Extends a caller's connection that has outcomes. Notifies the outcomes in two cases in
        # which Active Record does not. In the first case, a COMMIT gets no answer, and Active
        # Record throws the connection away. In the second case, MySQL finds a deadlock, and rolls
        # back the whole transaction. But Active Record then invalidates only the innermost
        # savepoint. It may commit the rest of the transaction, without the work that MySQL has
        # rolled back.
        module WithOutcomes
          # @return [Array<Outcome>]
          def plock_outcomes = @plock_outcomes ||= []

          def throw_away!
            super
          ensure
            Thread.handle_interrupt(UNINTERRUPTED) { plock_outcomes.each(&:unknown!) }
          end

          private

          def invalidate_transaction(error)
            super
          ensure
            if error.is_a?(ActiveRecord::TransactionRollbackError) &&
               savepoint_errors_invalidate_transactions?
              Thread.handle_interrupt(UNINTERRUPTED) { plock_outcomes.each(&:rolledback!) }
            end
          end
        end

        private_constant :KINDS, :IN_MEMORY, :Outcome, :WithOutcomes

        # @return [Class] a subclass of {Connection}
        attr_reader :connection_class

        attr_reader :tables

        def initialize(model)
          unless model.is_a?(Class) && model <= ActiveRecord::Base
            raise ArgumentError,
                  "a store in a database needs an Active Record class (got #{model.inspect})"
          end

          @model = model
          @database = config.adapter_class::ADAPTER_NAME
          kind, tables = KINDS.fetch(@database) do |name|
            raise UnsupportedError, "a store in a database needs PostgreSQL, MySQL, MariaDB or " \
                                    "SQLite (this is #{name})"
          end
          if kind == "sqlite" && IN_MEMORY.match?(config.database.to_s)
            raise UnsupportedError, "an SQLite database in memory belongs to one connection: " \
                                    "no other connection would see a lease"
          end
          @connection_class = load_class(kind)
          @tables = load_class(tables).new(model.table_name_prefix, model.table_name_suffix)
        end

        # @param connect_timeout [Float] seconds
        # @return [ActiveRecord::ConnectionAdapters::AbstractAdapter] connected, and part of no
        #   pool
        def adapter(connect_timeout)
          config = self.config
          check_database(config.adapter_class::ADAPTER_NAME)
          hash =
            @connection_class.settings(
              { connect_timeout: connect_timeout.ceil }.merge(config.configuration_hash)
            )
          ActiveRecord::DatabaseConfigurations::HashConfig
            .new(config.env_name, config.name, hash)
            .new_connection
            .connect!
        rescue ActiveRecord::ActiveRecordError => e
          raise failure(e)
        end

        # Only a transaction that the caller has begun counts. The transaction around a test does
        # not count, because it is not joinable.
        #
        # @return [Boolean] does the model have an open transaction in this thread?
        def in_transaction?
          connection = writing_pool.active_connection
          return false unless connection && connection.transaction_open?

          connection.current_transaction.joinable? || connection.open_transactions > 1
        end

        # @yieldparam inside [Inside] the caller's connection in the writing role
        def inside(&block)
          connection = self.connection
          inside = Inside.new(connection, @connection_class.failures)
          # the caller may be in a block that selects a reading role
          ActiveRecord::Base.while_preventing_writes(false) { inside.guarded(&block) }
        ensure
          Thread.handle_interrupt(UNINTERRUPTED) do
            outcomes_of(connection).each(&:rolledback!) if inside&.transaction_gone?
          end
        end

        # @return [Object] the caller's connection, which no other thread's transaction uses
        def connection = writing_pool.active_connection

        # Calls one of the procs when the caller's transaction has ended. `rolled_back` is also
        # called in three other cases: only the caller's savepoint is rolled back; MySQL has found a
        # deadlock; or the session that did the work is lost. If the caller ignores the lost
        # session's error, Active Record connects again, and commits without the work. `unknown` is
        # called if the COMMIT got no answer, or was interrupted.
        def when_over(rolled_back, committed = -> {}, unknown = rolled_back)
          connection = self.connection
          session = session_of(connection)
          on_commit = -> { session_of(connection) == session ? committed.call : rolled_back.call }
          outcome = Outcome.new(rolled_back, on_commit, unknown)
          outcomes_of(connection).reject!(&:over?)
          outcomes_of(connection) << outcome
          connection.add_transaction_record(outcome)
        end

        # @return [String] the database's URL, without user and password
        def url
          hash = config.configuration_hash
          place = [hash[:host] || hash[:socket], hash[:port]].compact.join(":")
          "#{config.adapter}:#{"//#{place}/" unless place.empty?}#{config.database}"
        end

        # Reads the configuration each time, because a model may be reconnected.
        #
        # @return [ActiveRecord::DatabaseConfigurations::DatabaseConfig] of the writing role,
        #   whatever role the caller uses
        def config
          writing_pool.db_config
        end

        private

        def load_class(file)
          require_relative file
          Database.const_get(file.split("_").map(&:capitalize).join)
        end

        def outcomes_of(connection) = connection.extend(WithOutcomes).plock_outcomes

        # @return [Object, nil] identifies the session, and changes when Active Record connects
        #   again; nil: unknown
        def session_of(connection)
          raw = connection.instance_variable_get(:@raw_connection)
          raw.respond_to?(:backend_pid) ? raw.backend_pid : raw
        rescue *@connection_class.failures
          nil # the connection is closed
        end

        def writing_pool
          pool =
            @model.connection_handler.retrieve_connection_pool(
              @model.connection_specification_name, role: ActiveRecord.writing_role,
              shard: @model.default_shard
            )
          pool or raise ConfigurationError, "#{@model.name} has no connection to a database"
        end

        # Takes the reason from the driver's error, because Active Record only guesses it from the
        # words of the message. For example, if a server that shuts down names the role, the
        # database or the host in its message, Active Record assumes a wrong password.
        def failure(error)
          error = error.cause || error
          message = error.message.lines.first.to_s.strip
          case @connection_class.refusal(error)
          when :login then AuthenticationError.new(message, code: :login)
          when :no_database then ConfigurationError.new(message)
          else UnavailableError.new(message, code: :connect)
          end
        end

        # A model may be reconnected to another database, but only to one of the same kind.
        def check_database(name)
          return if name == @database

          raise ConfigurationError, "#{@model.name} was connected to #{@database} when its " \
                                    "store was made, and is to #{name} now"
        end
      end
    end
  end
end
