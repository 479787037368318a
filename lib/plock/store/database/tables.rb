# frozen_string_literal: true

require_relative "statements"

module Plock
  class Store
    class Database
      # The statements on the two tables. Each method takes the connection that it uses. Moments and
      # spans are in microseconds. Moments are on the database's clock.
      #
      # `plock_leases` has a row for each key: the holder, the end of the lease, the last fence,
      # and whether there may be waiters. Every batch locks the rows of its keys first.
      # `plock_claims` has the waiters of each key, in the order of their ids. It also has the
      # holders of each key that can have several holders. In `plock_claims`, a holder has a fence,
      # and a waiter has none.
      #
      # The row of a free key keeps the fence. The row is deleted after a day at the earliest, and
      # not before the database's clock has passed the fence.
      #
      # The SQL here is for PostgreSQL and SQLite; {MysqlTables} replaces some of it.
      #
      # @api private
      class Tables
        include Statements

        NEVER = (2**63) - 1 # a moment that never comes
        DAY = 86_400 * 1_000_000
        PLACE_KEPT = 60 * 1_000_000 # if a place ended this long ago, its owner is gone
        LISTED_AT_ONCE = 500
        PRUNED_AT_ONCE = 500

        def initialize(prefix, suffix)
          @leases = "#{prefix}plock_leases#{suffix}"
          @claims = "#{prefix}plock_claims#{suffix}"
        end

        # @return [Integer, nil] the fence; nil: the key is held or has waiters
        def acquire(connection, key, token, ttl, holder, deadline)
          connection.run(acquire_sql, key, token, ttl, holder, deadline).value
        end

        # @return [Boolean, nil] may there be waiters? nil: the token did not hold the key
        def release(connection, key, token, keep, deadline)
          row = connection.run(release_sql, key, token, keep, deadline).row
          row && row[0] != 0
        end

        # Like {#release}, for a key that can have several holders.
        def release_shared(connection, key, token, keep, deadline)
          claims, held, = lease(key, token, true)
          answer =
            if keep.zero?
              connection.run("DELETE FROM #{claims} WHERE #{held}", token, deadline)
            else
              connection.run(
                "UPDATE #{claims} SET #{ends_in("$2")}, token = $3 WHERE #{held}", token, keep,
                "#{token}:kept", deadline
              )
            end
          return unless answer.count.positive?

          connection.run("SELECT waiting FROM #{@leases} WHERE name = $1", key, deadline).value == 1
        end

        # @return [Boolean] did the token still hold the key?
        def prolong(connection, key, token, span, shared, deadline)
          table, held, *binds = lease(key, token, shared)
          sql = "UPDATE #{table} SET #{ends_in("$#{binds.size + 1}")} WHERE #{held}"
          connection.run(sql, *binds, span, deadline).count.positive?
        end

        # Takes the key if this request is the first in the wait queue, and the key has room for it.
        #
        # @param queue [Boolean] does the request keep its place if it is refused?
        # @return [Array(Integer, Integer, Integer, String, String)] the fence, or nil; how long the
        #   key is still held, or nil; how many waiters precede this request; the holder record and
        #   the token of the first waiter after this call, or nil
        def ask(connection, key, token, share, ttl, place, holder, queue, deadline)
          taken = "EXISTS (SELECT 1 FROM #{@leases} WHERE name = $key AND token = $token)"
          statements = [
            lock_rows, prune_claims_of_key, take_place, *(share ? share_key : occupy_key),
            queue ? leave_place(taken) : leave_place, flag, outcome
          ]
          connection.batch(
            statements,
            {
              key: key, token: token, mode: share&.mode, slots: share&.limit, ttl: ttl,
              place: place, holder: holder
            },
            "iiiss",
            deadline
          ).first
        end

        # Removes the lease or the place that a token has.
        #
        # @return [Array(String, String), nil] the holder record and the token of the waiter to call
        def settle(connection, key, token, deadline)
          statements = [
            lock_rows, vacate("name = $key AND token = $token"),
            "DELETE FROM #{@claims} WHERE token = $token", prune_claims_of_key, flag,
            first_of_queue("l.expires_at <= #{now}")
          ]
          connection.batch(statements, { key: key, token: token }, "ss", deadline).first
        end

        # @param names [Hash{String => String}] the keys, by token
        # @return [Array<String>] the tokens that have a lease or a place
        def present(connection, names, deadline)
          tokens = "token IN (#{literals(connection, names.keys)})"
          connection.run("SELECT token FROM #{@leases} WHERE #{among(connection, names)} " \
                         "UNION ALL SELECT token FROM #{@claims} WHERE #{tokens}",
                         deadline).rows.flatten
        end

        # Deletes places that have ended, so that the next caller need not do so.
        def tidy(connection, key, deadline)
          connection.batch([lock_rows, prune_claims_of_key, flag], { key: key }, "", deadline)
        end

        # @param fences [Array<Integer>, nil] the fences of the leases to break; nil: all leases
        # @return [Array<Array(String, String, Integer)>] a row for each holder that loses its
        #   lease, and a row for the first waiter. Each row has the holder record, the token, and 1
        #   for a holder or 0 for the waiter
        def break(connection, key, fences, deadline)
          theirs = fences ? "fence IN (#{fences.join(", ")})" : "fence IS NOT NULL"
          told = "SELECT holder, token, 1 FROM #{@leases} " \
                 "WHERE name = $key AND expires_at > #{now} AND #{theirs} " \
                 "UNION ALL SELECT holder, token, 1 FROM #{@claims} " \
                 "WHERE name = $key AND #{theirs} " \
                 "UNION ALL SELECT holder, token, 0 FROM #{@claims} " \
                 "WHERE id = (SELECT MIN(id) FROM #{@claims} WHERE name = $key AND fence IS NULL)"
          statements = [lock_rows, prune_claims_of_key, told, vacate("name = $key AND #{theirs}"),
                        "DELETE FROM #{@claims} WHERE name = $key AND #{theirs}", flag]
          connection.batch(statements, { key: key }, "ssi", deadline)
        end

        # Turns a writer into a reader.
        #
        # @return [Array(Integer, String, String)] 1 if the token held the key, else 0; the holder
        #   record and the token of the waiter to call, or nil
        def downgrade(connection, key, token, deadline)
          ours = "SELECT COUNT(*) FROM #{@claims} WHERE token = $token AND fence IS NOT NULL"
          statements = [lock_rows, prune_claims_of_key,
                        "UPDATE #{@claims} SET mode = 'r', slots = NULL " \
                        "WHERE token = $token AND fence IS NOT NULL",
                        first_of_queue("1 = 1", "(#{ours})")]
          connection.batch(statements, { key: key, token: token }, "iss", deadline).first
        end

        # Gives a lease of the token `from` to another owner, with a new fence.
        #
        # @param ttl [Integer, nil] nil: the lease keeps its expiry
        # @return [Array(Integer, Integer), nil] the fence, and how long the lease still lasts;
        #   nil: the lease is no longer held
        def hand_over(connection, key, from, token, ttl, holder, shared, deadline)
          table, fence =
            if shared
              [@claims, "(SELECT #{next_fence} FROM #{@leases} WHERE name = $key)"]
            else
              [@leases, next_fence]
            end
          statements = [
            lock_rows,
            "UPDATE #{table} SET fence = #{fence}, token = $token, holder = $holder, " \
              "expires_at = COALESCE(#{now} + $ttl, expires_at), " \
              "acquired_at = CASE WHEN $ttl IS NULL THEN acquired_at " \
              "ELSE #{lesser("acquired_at", now)} END " \
              "WHERE name = $key AND token = $from AND fence IS NOT NULL AND expires_at > #{now}",
            *(mark if shared),
            "SELECT fence, expires_at - #{now} FROM #{table} WHERE name = $key AND token = $token"
          ]
          connection.batch(
            statements, { key: key, from: from, token: token, ttl: ttl, holder: holder }, "ii",
            deadline
          ).first
        end

        # @return [String, nil] the holder record of the owner that has this token; nil: the token
        #   does not hold the key
        def holder_of(connection, key, token, shared, deadline)
          table, held, *binds = lease(key, token, shared)
          connection.run("SELECT holder FROM #{table} WHERE #{held}", *binds, deadline).value
        end

        # Takes several keys, all or none.
        #
        # @param wanted [Array<Array(String, String, String)>] key, token and holder record
        # @return [Hash{String => Integer}] the fences of the keys that were free; if all of them
        #   were free, they are held now
        def acquire_all(connection, wanted, ttl, deadline)
          binds = { ttl: ttl, count: wanted.size }
          wanted.each_with_index do |(key, token, holder), at|
            binds.update("key#{at}": key, "token#{at}": token, "holder#{at}": holder)
          end
          # all batches lock in the same order, because otherwise two batches could wait for each
          # other
          places = wanted.each_index.sort_by { |at| wanted[at].first }
          keys = places.map { |at| "$key#{at}" }.join(", ")
          tokens = places.map { |at| "$token#{at}" }.join(", ")
          ours = "name IN (#{keys}) AND token IN (#{tokens})"
          statements = [
            lock_rows(places),
            *forget_waiters(places),
            *places.map { |at| take_row("waiting = 0", at) },
            "SELECT name, fence FROM #{@leases} WHERE #{ours}",
            vacate(
              "#{ours} AND (SELECT COUNT(*) FROM " \
              "(SELECT name FROM #{@leases} WHERE #{ours} LIMIT #{ALL}) AS taken) < $count"
            )
          ]
          connection.batch(statements, binds, "si", deadline).to_h
        end

        # @param names [Hash{String => String}] the keys of exclusive leases, by token
        # @return [Array<String>] the tokens of the renewed leases. The other leases are no longer
        #   held, or, on PostgreSQL, another transaction has locked them.
        def prolong_all(connection, names, span, deadline)
          mine = among(connection, names)
          connection.run("UPDATE #{@leases} SET #{ends_in(span)} WHERE #{mine}", deadline)
          connection.run("SELECT token FROM #{@leases} WHERE #{mine}", deadline).rows.flatten
        end

        # @return [Array(Integer, Boolean, Integer), nil] how long the key is still held, whether
        #   the waiter is the first, and how long its place is kept; nil: its place is gone
        def look(connection, key, token, deadline)
          left, first, place = connection.run(look_sql, key, token, deadline).row
          place && [left, first.zero?, place]
        end

        # @return [Integer] how long an exclusive holder still has the key; 0 or less: there is no
        #   such holder, or the clock was set back. Only a batch that locks the row can tell which
        def held_for(connection, key, deadline)
          left = "CASE WHEN #{ahead("acquired_at")} THEN 0 ELSE expires_at - #{now} END"
          connection.run("SELECT #{left} FROM #{@leases} WHERE name = $1", key, deadline).value || 0
        end

        # Calls the first waiter, if the database can do so and the waiter belongs to another
        # process. Returns the waiter's holder record and token.
        def call_first(connection, key, _channel, deadline)
          connection.run("SELECT holder, token FROM #{@claims} " \
                         "WHERE name = $1 AND fence IS NULL AND expires_at > #{now} " \
                         "ORDER BY id LIMIT 1", key, deadline).row
        end

        # @return [Array<Array(Integer, Integer, Integer, String, String)>] the holders, and then
        #   the waiters in order. Each row has the fence, or nil; the time left; when the lease or
        #   the wait began; the holder record; the mode, or nil; and a number that sorts the rows
        def examine(connection, key, deadline)
          connection
            .run(
              "SELECT fence, expires_at - #{now}, acquired_at, holder, NULL, 0 AS place " \
                "FROM #{@leases} WHERE name = $1 " \
                "UNION ALL SELECT fence, expires_at - #{now}, acquired_at, holder, mode, id " \
                "FROM #{@claims} WHERE name = $1 ORDER BY place",
              key,
              deadline
            )
            .rows
            .select { |_fence, left| left.positive? }
        end

        # @return [Array<String>] the names of held keys that follow `after`, in order
        def held(connection, prefix, after, deadline)
          connection.run("SELECT name FROM #{@leases} l WHERE substr(name, 1, $2) = $1 " \
                         "AND name > $3 AND (expires_at > #{now} OR " \
                         "EXISTS (SELECT 1 FROM #{@claims} c WHERE c.name = l.name " \
                         "AND c.fence IS NOT NULL AND c.expires_at > #{now})) " \
                         "ORDER BY name LIMIT #{LISTED_AT_ONCE}",
                         prefix, prefix.length, after, deadline).rows.flatten
        end

        # A note is a row without a lock, with its text in the column `holder`. The row never
        # becomes old enough for {#prune}.
        def note(connection, name, deadline)
          connection.run("SELECT holder FROM #{@leases} WHERE name = $1", name, deadline).value
        end

        def keep_note(connection, name, note, replace, deadline)
          connection.run(
            "INSERT INTO #{@leases} (name, holder, acquired_at) " \
            "VALUES ($1, $2, #{NEVER}) #{or_update("name", "name")}",
            name, note, deadline
          )
          if replace
            connection.run(
              "UPDATE #{@leases} SET holder = $2 WHERE name = $1", name, note, deadline
            )
          end
        end

        # @return [Boolean] might there be more to delete?
        def prune(connection, deadline)
          connection.run(
            "DELETE FROM #{@claims} WHERE expires_at < #{now} - $1", PLACE_KEPT, deadline
          )
          connection.run(prune_leases_sql, DAY, deadline).count >= PRUNED_AT_ONCE
        end

        private

        def acquire_sql
          @acquire_sql ||= <<~SQL.tr("\n", " ").strip
            INSERT INTO #{@leases} AS l (name, token, fence, acquired_at, expires_at, holder)
            VALUES ($1, $2, #{now}, #{now}, #{now} + $3, $4)
            ON CONFLICT (name) DO UPDATE SET token = excluded.token,
            fence = #{greater("l.fence + 1", "excluded.fence")}, acquired_at = excluded.acquired_at,
            expires_at = excluded.expires_at, holder = excluded.holder
            WHERE l.expires_at <= excluded.acquired_at AND l.waiting = 0 RETURNING fence
          SQL
        end

        def release_sql
          @release_sql ||= <<~SQL.tr("\n", " ").strip
            UPDATE #{@leases} SET token = NULL,
            holder = CASE WHEN CAST($3 AS bigint) > 0 THEN holder END,
            expires_at = CASE WHEN CAST($3 AS bigint) > 0 THEN #{now} + $3 ELSE 0 END,
            acquired_at = #{lesser("acquired_at", now)}
            WHERE name = $1 AND token = $2 AND expires_at > #{now} RETURNING waiting
          SQL
        end

        def look_sql
          @look_sql ||= <<~SQL.tr("\n", " ").strip
            SELECT l.expires_at - #{now},
            (SELECT COUNT(*) FROM #{@claims} b WHERE b.name = c.name AND b.fence IS NULL
            AND b.id < c.id AND b.expires_at > #{now}), c.expires_at - #{now}
            FROM #{@claims} c JOIN #{@leases} l ON l.name = c.name
            WHERE c.name = $1 AND c.token = $2 AND c.fence IS NULL
          SQL
        end

        def prune_leases_sql
          "DELETE FROM #{@leases} WHERE name IN " \
            "(SELECT name FROM #{@leases} WHERE #{idle} LIMIT #{PRUNED_AT_ONCE}) AND #{idle}"
        end

        # The condition that a key has been free for a day. `acquired_at` alone does not show that,
        # because shared holders may hold a key for longer than a day. If the clock was set back,
        # the fence is ahead of the clock, and is still needed.
        def idle
          "expires_at < #{now} AND acquired_at < #{now} - $1 AND fence < #{now} AND " \
            "NOT EXISTS (SELECT 1 FROM #{@claims} c WHERE c.name = #{@leases}.name)"
        end
      end
    end
  end
end
