# frozen_string_literal: true

require_relative "tables"

module Plock
  class Store
    class Database
      # On PostgreSQL, the statement that releases a key can also call the first waiter, which means
      # to notify the waiter that its turn may have come.
      #
      # @api private
      class PostgresqlTables < Tables
        # The first of the two numbers that name a listener's advisory lock. The second number is
        # the listener's server process.
        LISTENERS = 1_886_154_603 # "plck" in ASCII

        # Releases the key like {#release}, and calls the first waiter if that waiter is in another
        # process and did not arrive while the statement ran.
        #
        # @return [Array(Boolean, String), nil] whether there may be waiters, and the token of the
        #   first waiter that the statement saw; nil: the token did not hold the key
        def release_and_call(connection, key, token, channel, deadline)
          row = connection.run(release_and_call_sql, key, token, channel, deadline).row
          row && [row[0] != 0, row[1]]
        end

        def call_first(connection, key, channel, deadline)
          sql = "SELECT holder, token, #{call("$2")} FROM #{head}"
          connection.run(sql, key, channel, deadline).row
        end

        # Takes a free key for the first waiter. The flag `waiting` stays set even if this was the
        # only waiter, because the statement does not see waiters that arrive while it runs.
        #
        # @return [Integer, nil] the fence
        def claim(connection, key, token, ttl, deadline)
          connection.run(claim_sql, key, token, ttl, deadline).value
        end

        # Takes the lock that {#alive} tries, and returns the connection's server process.
        def announce_listener(connection, deadline)
          sql = "SELECT pg_backend_pid(), pg_try_advisory_lock(#{LISTENERS}, pg_backend_pid())"
          connection.run(sql, deadline).value
        end

        def tell(connection, channel, word, deadline)
          connection.run("SELECT pg_notify($1, $2)", channel, word, deadline)
        end

        # Renews leases in one statement, which skips rows that another transaction has locked.
        def prolong_all(connection, names, span, deadline)
          connection.run("WITH mine AS (SELECT name FROM #{@leases} " \
                         "WHERE #{among(connection, names)} FOR UPDATE SKIP LOCKED) " \
                         "UPDATE #{@leases} l SET #{ends_in(span)} FROM mine " \
                         "WHERE l.name = mine.name RETURNING l.token",
                         deadline).rows.flatten
        end

        private

        # The condition that a claim's waiter is alive. The claim's holder record names the server
        # process that listens for the waiter's process. This server process lives as long as the
        # waiter. A listener holds an advisory lock. Trying that lock is cheaper than looking for
        # the server process. But a free lock proves nothing, because listeners of older versions
        # hold no such lock.
        def alive(claim)
          listener = "split_part(split_part(#{claim}.holder, ' ', 4), '@', 2)"
          "CASE WHEN #{listener} !~ '^[0-9]+$' THEN true " \
            "WHEN NOT pg_try_advisory_xact_lock_shared(#{LISTENERS}, #{listener}::int) THEN true " \
            "ELSE EXISTS (SELECT 1 FROM pg_stat_get_activity(#{listener}::int)) END"
        end

        # The first waiter for `$1` that is not known to have ended. The subquery sorts first, so
        # that the server checks waiters only until it finds a live one. `known` is a condition for
        # claims that are known to be alive.
        def head(condition = "true", known = "false")
          "(SELECT token, holder, split_part(split_part(holder, ' ', 4), '@', 1) AS channel " \
            "FROM (SELECT token, holder FROM #{@claims} WHERE #{condition} AND name = $1 " \
            "AND fence IS NULL AND expires_at > #{now} ORDER BY id OFFSET 0) AS c " \
            "WHERE CASE WHEN #{known} THEN true ELSE #{alive("c")} END LIMIT 1) AS head"
        end

        # Calls the first waiter, unless it belongs to this process, which listens on `channel`.
        def call(channel)
          "CASE WHEN head.channel <> #{channel} " \
            "THEN pg_notify(head.channel, 'turn ' || head.token) END::text"
        end

        def now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

        def release_and_call_sql
          @release_and_call_sql ||= <<~SQL.tr("\n", " ").strip
            WITH freed AS (UPDATE #{@leases} SET token = NULL, holder = NULL, expires_at = 0
            WHERE name = $1 AND token = $2 AND expires_at > #{now} RETURNING waiting)
            SELECT freed.waiting, head.token, #{call("$3")}
            FROM freed LEFT JOIN LATERAL #{head("freed.waiting <> 0")} ON true
          SQL
        end

        def claim_sql
          @claim_sql ||= <<~SQL.tr("\n", " ").strip
            WITH mine AS (SELECT token, holder FROM #{head("true", "c.token = $2")}
            WHERE token = $2),
            taken AS (UPDATE #{@leases} l
            SET token = mine.token, holder = mine.holder, acquired_at = #{now},
            fence = GREATEST(l.fence + 1, #{now}), expires_at = #{now} + $3 FROM mine
            WHERE l.name = $1 AND l.expires_at <= #{now} RETURNING l.fence),
            gone AS (DELETE FROM #{@claims} WHERE token = $2 AND EXISTS (SELECT 1 FROM taken))
            SELECT fence FROM taken
          SQL
        end
      end
    end
  end
end
