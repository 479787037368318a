# frozen_string_literal: true

require_relative "../support/aside"
require_relative "connection"

module Plock
  class Store
    class Database
      # The code that the two drivers of MySQL and MariaDB share.
      #
      # @api private
      class Mysql < Connection
        # Errors that a retry resolves: a lock wait timeout, a deadlock, a row that has changed
        # since it was read.
        CONFLICTS = [1205, 1213, 1020].freeze

        FORBIDDEN = [1044, 1142, 1143, 1227].freeze
        MISSING = 1146
        READ_ONLY = [1290, 1792, 1836].freeze

        # At this level, a transaction locks rows, but not the gaps between them. So callers for
        # neighbouring keys do not wait for one another.
        ISOLATED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"

        # The beginning of a block of statements that is rolled back if a statement fails.
        ON_FAILURE =
          "BEGIN NOT ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END"

        # Settings of each session, which override those of the model and the server. With these
        # settings, each statement outside of a batch is a separate transaction, and a COMMIT
        # begins no new transaction. A statement may change rows that it finds without an index.
        # MariaDB does not wait for a row that another session has locked. MySQL waits for a second,
        # its shortest limit, and ends a session that is idle for ten seconds.
        VARIABLES = {
          autocommit: 1, completion_type: 0, innodb_lock_wait_timeout: 0, sql_safe_updates: 0
        }.freeze
        ON_MYSQL = { innodb_lock_wait_timeout: 1, wait_timeout: 10 }.freeze
        READ_S = 2
        LONGEST_S = 31_536_000

        # Failures of a server that is, for example, shutting down or has too many connections.
        UNAVAILABLE = [
          1021, 1040, 1041, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1317, 1927, 3024
        ].freeze

        REFUSALS = {
          1044 => :no_database, 1045 => :login, 1049 => :no_database, 1698 => :login
        }.freeze

        def self.refusal(error) = REFUSALS[number_of(error)]

        # Each driver names this attribute differently.
        def self.number_of(error)
          name = %i[error_number error_code].find { |known| error.respond_to?(known) }
          error.public_send(name) if name
        end

        def self.settings(hash)
          variables = hash.fetch(:variables, {}).transform_keys(&:to_sym)
          { read_timeout: READ_S, **hash, variables: { **variables, **VARIABLES } }
        end

        # @return [Integer] the server's id of the connection
        attr_reader :server_id

        def initialize(adapter, &another)
          super
          unless adapter.mariadb?
            ON_MYSQL.each { |name, value| @adapter.execute("SET SESSION #{name} = #{value}") }
          end
        end

        # Lifts the server's time limit for idle sessions, because this session may hold a lock.
        def stay_open(deadline)
          run("SET SESSION wait_timeout = #{LONGEST_S}", deadline) unless @stays_open
          @stays_open = true
        end

        # If a statement is running, this asks the server to stop it. Without this request, the
        # server would notice only later that the client is gone.
        def close
          kill if @busy && !Background.over? # at exit, the kill could hang
          super
        end

        private

        def begin_sql = "START TRANSACTION"

        def kill
          id, another = server_id, @another
          Aside.start do
            other = another.call
            other.execute("KILL #{id}")
          ensure
            other&.disconnect!
          end
        end

        # MariaDB takes all statements in one block. MySQL needs them one by one. If this process
        # stops between two statements, the server ends the idle session after a while, which
        # unlocks the session's rows.
        def perform_batch(statements, _types, deadline)
          texts = [ISOLATED, begin_sql, *statements, "COMMIT"]
          texts = ["#{ON_FAILURE}; #{texts.join("; ")}; END"] if @adapter.mariadb?
          texts.map { |sql| perform(sql, [], deadline).rows }.reject(&:empty?).last || []
        end

        def failure(error)
          case number = self.class.number_of(error)
          when *CONFLICTS then again(error)
          when *FORBIDDEN then forbidden(error)
          when MISSING then missing_table(error)
          when *READ_ONLY then read_only(error)
          when nil, 0, *UNAVAILABLE, 2000.. then unavailable(error)
          else ProtocolError.new("#{words(error)} (#{number})", code: :server_error)
          end
        end

        # Did the server report the error, rather than the client library?
        def answered?(error)
          self.class.number_of(error)&.between?(1000, 1999) || false
        end
      end
    end
  end
end
