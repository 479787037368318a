# frozen_string_literal: true

require_relative "tables"

module Plock
  class Store
    class Database
      # MySQL has no RETURNING, so its statements return their result in LAST_INSERT_ID.
      #
      # @api private
      class MysqlTables < Tables
        def acquire(connection, key, token, ttl, holder, deadline)
          id = connection.run(acquire_sql, key, token, ttl, holder, deadline).id
          id unless id.nil? || id.zero?
        end

        def release(connection, key, token, keep, deadline)
          answer = connection.run(release_sql, key, token, keep, deadline)
          answer.count.positive? ? answer.id == 1 : nil
        end

        private

        # The time at which the statement began, in UTC because local time may go back by an hour.
        def now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

        # Each assignment sees the values that the previous assignments have set. `expires_at` tells
        # whether the key is free, so it is assigned last.
        def acquire_sql
          free = "expires_at <= VALUES(acquired_at) AND waiting = 0"
          @acquire_sql ||= <<~SQL.tr("\n", " ").strip
            INSERT INTO #{@leases} (name, token, fence, acquired_at, expires_at, holder)
            VALUES ($1, $2, LAST_INSERT_ID(#{now}), #{now}, #{now} + $3, $4) ON DUPLICATE KEY UPDATE
            token = IF(#{free}, VALUES(token), token),
            fence = IF(#{free}, LAST_INSERT_ID(GREATEST(fence + 1, VALUES(fence))),
            fence + LAST_INSERT_ID(0)),
            holder = IF(#{free}, VALUES(holder), holder),
            acquired_at = IF(#{free}, VALUES(acquired_at), acquired_at),
            expires_at = IF(#{free}, VALUES(expires_at), expires_at)
          SQL
        end

        def release_sql
          @release_sql ||= <<~SQL.tr("\n", " ").strip
            UPDATE #{@leases} SET expires_at = IF($3 > 0, #{now} + $3, 0),
            acquired_at = #{lesser("acquired_at", now)}, holder = IF($3 > 0, holder, NULL),
            token = NULL, waiting = LAST_INSERT_ID(waiting)
            WHERE name = $1 AND token = $2 AND expires_at > #{now}
          SQL
        end

        def on_conflict(_unique) = "ON DUPLICATE KEY UPDATE"

        def inserted(column) = "VALUES(#{column})"

        def prune_leases_sql = "DELETE FROM #{@leases} WHERE #{idle} LIMIT #{PRUNED_AT_ONCE}"
      end
    end
  end
end
