# frozen_string_literal: true

module Plock
  class Store
    class Database
      # Parts of the statements of {Tables}. In the statements of a batch, `$key` stands for the
      # bound value `key`.
      #
      # @api private
      module Statements
        # In MySQL, a statement that changes a table can read that table only in a subquery with a
        # limit. This limit is so high that it changes nothing.
        ALL = 1_000_000_000
        # If a time is more than a minute ahead of the clock, the clock has been set back since the
        # time was written. A smaller lead proves nothing: a statement that waited for a row still
        # uses the time that it read before the wait, which is less than a minute old.
        STEP = 60 * 1_000_000

        private

        # Every batch locks the key's row first, and reads the queue under that lock.
        def lock_rows(places = [nil])
          rows = places.map { |at| "($key#{at})" }.join(", ")
          "INSERT INTO #{@leases} (name) VALUES #{rows} #{on_conflict("name")} #{in_time(@leases)}"
        end

        # If the row already exists, these columns take their values from the rejected insertion.
        def or_update(unique, *columns)
          values = columns.map { |column| "#{column} = #{inserted(column)}" }
          "#{on_conflict(unique)} #{values.join(", ")}"
        end

        def on_conflict(unique) = "ON CONFLICT (#{unique}) DO UPDATE SET"

        def inserted(column) = "excluded.#{column}"

        # The condition that `moment` was written before the clock was set back.
        def ahead(moment) = "#{moment} > #{now} + #{STEP}"

        # If the clock was set back after the lease began, the lease starts again now, with its
        # whole length.
        def in_time(table)
          set_back = "#{table}.expires_at > #{now} AND #{ahead("#{table}.acquired_at")}"
          "expires_at = CASE WHEN #{set_back} " \
            "THEN #{now} + #{table}.expires_at - #{table}.acquired_at " \
            "ELSE #{table}.expires_at END, " \
            "acquired_at = CASE WHEN #{set_back} THEN #{now} ELSE #{table}.acquired_at END"
        end

        # If the clock was set back, this also moves the lease's beginning back, so that it does not
        # lie in the future.
        def ends_in(span) =
          "expires_at = #{now} + #{span}, acquired_at = #{lesser("acquired_at", now)}"

        # The condition that a claim has ended, or is a place from before the clock was set back.
        def over = "(expires_at <= #{now} OR (fence IS NULL AND #{ahead("expires_at")}))"

        # Deletes the claims that have ended. If a key then has no live waiter, clears its flag
        # `waiting`, so that a new caller can take the key at once.
        def forget_waiters(places)
          names = "IN (#{places.map { |at| "$key#{at}" }.join(", ")})"
          ["DELETE FROM #{@claims} WHERE name #{names} AND #{over}",
           "UPDATE #{@leases} SET waiting = 0 WHERE name #{names} AND waiting <> 0 " \
           "AND NOT EXISTS (SELECT 1 FROM #{@claims} c " \
           "WHERE c.name = #{@leases}.name AND c.fence IS NULL AND #{alive("c")})"]
        end

        def take_row(unwanted, at = nil)
          "UPDATE #{@leases} SET token = $token#{at}, holder = $holder#{at}, " \
            "fence = #{next_fence}, acquired_at = #{now}, expires_at = #{now} + $ttl " \
            "WHERE name = $key#{at} AND expires_at <= #{now} AND #{unwanted}"
        end

        def prune_claims_of_key = "DELETE FROM #{@claims} WHERE name = $key AND #{over}"

        def take_place
          "INSERT INTO #{@claims} " \
            "(name, token, mode, slots, fence, acquired_at, expires_at, holder) " \
            "VALUES ($key, $token, $mode, $slots, NULL, #{now}, #{now} + $place, $holder) " \
            "#{or_update("token", "expires_at", "holder")}"
        end

        def greater(one, other) = "GREATEST(#{one}, #{other})"

        def lesser(one, other) = "LEAST(#{one}, #{other})"

        def next_fence = greater("fence + 1", now)

        def occupy_key
          take_row("NOT EXISTS (SELECT 1 FROM #{@claims} c WHERE c.name = $key " \
                   "AND (c.fence IS NOT NULL OR (#{before("c")})))")
        end

        def share_key
          inside = "(SELECT mode FROM #{@claims} " \
                   "WHERE name = $key AND fence IS NOT NULL LIMIT #{ALL}) AS c"
          queue = "(SELECT id, holder FROM #{@claims} " \
                  "WHERE name = $key AND fence IS NULL LIMIT #{ALL}) AS c"
          own = "(SELECT id FROM (SELECT id FROM #{@claims} WHERE token = $token LIMIT 1) AS mine)"
          ["UPDATE #{@claims} SET #{in_time(@claims)} " \
           "WHERE name = $key AND fence IS NOT NULL AND #{ahead("acquired_at")}",
           "UPDATE #{@claims} SET " \
           "fence = (SELECT #{next_fence} FROM #{@leases} WHERE name = $key), " \
           "acquired_at = #{now}, expires_at = #{now} + $ttl " \
           "WHERE token = $token AND fence IS NULL AND NOT EXISTS " \
           "(SELECT 1 FROM #{@leases} l WHERE l.name = $key AND l.expires_at > #{now}) " \
           "AND NOT EXISTS (SELECT 1 FROM #{inside} WHERE c.mode <> $mode) " \
           "AND (SELECT COUNT(*) FROM #{inside}) < COALESCE($slots, #{ALL}) " \
           "AND NOT EXISTS (SELECT 1 FROM #{queue} WHERE c.id < #{own} AND #{alive("c")})",
           mark]
        end

        # Copies the fence of the token's lease into the key's row, if that fence is larger.
        def mark
          latest =
            "(SELECT c.fence FROM #{@claims} c WHERE c.token = $token AND c.fence IS NOT NULL)"
          "UPDATE #{@leases} SET fence = #{latest}, acquired_at = #{now} " \
            "WHERE name = $key AND #{latest} > fence"
        end

        def before(claim)
          "#{claim}.id < (SELECT id FROM #{@claims} WHERE token = $token) AND #{alive(claim)}"
        end

        # The condition that the process of the claim is not known to have ended.
        def alive(_claim) = "1 = 1"

        def vacate(condition)
          "UPDATE #{@leases} SET token = NULL, holder = NULL, expires_at = 0 WHERE #{condition}"
        end

        def leave_place(condition = "1 = 1")
          "DELETE FROM #{@claims} WHERE token = $token AND fence IS NULL AND #{condition}"
        end

        def flag
          waiting = "CASE WHEN EXISTS (SELECT 1 FROM #{@claims} " \
                    "WHERE name = $key AND fence IS NULL) THEN 1 ELSE 0 END"
          "UPDATE #{@leases} SET waiting = #{waiting} WHERE name = $key AND waiting <> #{waiting}"
        end

        def outcome
          fence = "CASE WHEN l.token = $token THEN l.fence " \
                  "ELSE (SELECT fence FROM #{@claims} WHERE token = $token) END"
          left = "CASE WHEN l.expires_at > #{now} THEN l.expires_at - #{now} " \
                 "ELSE (SELECT MIN(expires_at) FROM #{@claims} " \
                 "WHERE name = $key AND fence IS NOT NULL) - #{now} END"
          place = "(SELECT COUNT(*) FROM #{@claims} c " \
                  "WHERE c.name = $key AND c.fence IS NULL AND (#{before("c")}))"
          first_of_queue("1 = 1", "#{fence}, #{left}, #{place}")
        end

        # If the condition holds, returns one row, which ends with a waiter's record and token.
        def first_of_queue(condition, columns = nil)
          "SELECT #{"#{columns}, " if columns}c.holder, c.token " \
            "FROM #{@leases} l LEFT JOIN #{@claims} c ON c.id = (SELECT MIN(q.id) " \
            "FROM #{@claims} q WHERE q.name = $key AND q.fence IS NULL AND #{alive("q")}) " \
            "WHERE l.name = $key AND #{condition}"
        end

        # The table, the condition that finds the lease while it lasts, and the bound values.
        def lease(key, token, shared)
          if shared
            return @claims, "token = $1 AND fence IS NOT NULL AND expires_at > #{now}", token
          end

          [@leases, "token = $1 AND name = $2 AND expires_at > #{now}", token, key]
        end

        def among(connection, names)
          keys, tokens = [names.values, names.keys].map { |some| literals(connection, some) }
          "name IN (#{keys}) AND token IN (#{tokens}) AND expires_at > #{now}"
        end

        def literals(connection, texts)
          texts.map { |text| connection.literal(text) }.join(", ")
        end
      end
    end
  end
end
