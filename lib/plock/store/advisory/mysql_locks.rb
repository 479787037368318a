# frozen_string_literal: true

require "openssl"
require_relative "../../clock"

module Plock
  class Store
    class Advisory
      # The statements that use GET_LOCK of MySQL and MariaDB. This class has the same methods as
      # {PostgresqlLocks}.
      #
      # @api private
      class MysqlLocks
        # A name that MySQL can use unchanged: at most 64 bytes, and no capital letters, because
        # MySQL ignores case.
        FITTING = /\A[!-@\[-~]{1,64}\z/n.freeze

        NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

        ADVICE = "a proxy before MySQL lends a connection to each statement, and would leave the " \
                 "lock to the next client of that connection: connect to MySQL itself"

        private_constant :FITTING, :NOW

        def unable = %i[read_write_locks downgrade]

        # Seconds that one statement may wait: a year.
        def longest_wait = 31_536_000.0

        def name(key)
          FITTING.match?(key.b) ? key : OpenSSL::Digest::SHA256.hexdigest(key)
        end

        # MySQL waits for whole seconds only, so the deadline may have to end the statement earlier.
        def lock(connection, key, _share, seconds, deadline)
          connection.stay_open(deadline)
          asked_at = Clock.now
          sql = "SELECT GET_LOCK($1, #{format("%.3f", seconds)}), CONNECTION_ID()"
          held, server_id = connection.run(sql, name(key), deadline).row
          [asked_at, server_id, connection.run("SELECT #{NOW}", deadline).value] if held == 1
        end

        def held?(connection, key, server_id, deadline)
          connection.run("SELECT IS_USED_LOCK($1)", name(key), deadline).value == server_id
        end

        def unlock(connection, key, _share, _server_id, deadline)
          connection.run("SELECT RELEASE_LOCK($1)", name(key), deadline).value == 1
        end

        def clean(connection, deadline)
          !connection.run("SELECT RELEASE_ALL_LOCKS()", deadline).nil?
        end

        def examine(connection, key, _shared, deadline)
          rows =
            connection.run(
              "SELECT ID, HOST, STATE FROM information_schema.PROCESSLIST " \
                "WHERE ID = IS_USED_LOCK($1) OR " \
                "(STATE = 'User lock' AND " \
                "LOCATE(CONCAT('SELECT GET_LOCK(''', $1, ''','), INFO) = 1) " \
                "ORDER BY /*M! TIME_MS DESC, */ TIME DESC, ID",
              name(key),
              deadline
            ).rows
          holder, = holders(connection, key, deadline)
          held, waiting = rows.partition { |id, _, _| id == holder }
          held = [[holder, nil]] if holder && held.empty? # a session that our user may not see
          [held, waiting].map do |some|
            some.map { |id, host, _| [id, host&.sub(/:\d+\z/, ""), nil] }
          end
        end

        def holders(connection, key, deadline)
          connection.run("SELECT IS_USED_LOCK($1)", name(key), deadline).rows.flatten.compact
        end

        def cut(connection, id, deadline)
          connection.run("KILL $1", id, deadline)
        end

        def astray?(connection, server_id, _pool, deadline)
          connection.run("SELECT CONNECTION_ID()", deadline).value != server_id
        end
      end
    end
  end
end
