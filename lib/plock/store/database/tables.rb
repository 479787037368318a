# frozen_string_literal: true

module Plock
  class Store
    class Database
      # The statements on the two tables, each given the connection that it is to go over. Moments and spans are microseconds, moments
      # the database's own.
      #
      # `plock_leases` has a row for each key: who holds it, until when, the last fence, and whether somebody may be waiting. Whoever
      # changes more than that row locks it first. `plock_claims` has those who wait for a key, in the order of their ids, and those
      # who hold a key that can have several holders: they have a fence.
      #
      # A row that nobody holds is kept for a day, for its fence. Where it is gone, the database's clock is ahead of that.
      #
      # This is how PostgreSQL and SQLite are spoken to; MySQL needs other words for some of it.
      #
      # @api private
      class Tables
        # As the head of a key is found under its lock.
        Head = Struct.new(:token, :fence, :expires_at, :waiting, :holder, :now) do
          def held? = expires_at > now

          # @return [Integer] for the next lease
          def next_fence = [fence + 1, now].max
        end

        # Somebody who waits, or shares.
        Claim = Struct.new(:id, :token, :mode, :limit, :fence, :acquired_at, :expires_at, :holder) do
          def waits? = fence.nil?
        end

        DAY = 86_400 * 1_000_000
        NEVER = (2**63) - 1 # a moment that is always to come
        PRUNED_AT_ONCE = 500
        LISTED_AT_ONCE = 500

        # @param prefix [String] of the tables' names, and what they end with
        def initialize(prefix, suffix)
          @leases = "#{prefix}plock_leases#{suffix}"
          @claims = "#{prefix}plock_claims#{suffix}"
        end

        # Takes a key for one, where nobody has it and nobody waits.
        #
        # @return [Integer, nil] the fence
        def acquire(connection, key, token, ttl, holder, deadline)
          connection.run(acquire_sql, key, token, ttl, holder, deadline).rows.dig(0, 0)
        end

        # @return [Boolean, nil] nil: it was not held with this token; true: somebody may be waiting
        def release(connection, key, token, keep, deadline)
          row = connection.run(release_sql, key, token, keep, deadline).rows.first
          row && row[0] != 0
        end

        # @return [Boolean, nil] the same of a key that can have several holders
        def release_shared(connection, key, token, keep, deadline)
          answer =
            if keep.positive? then connection.run(keep_share_sql, token, keep, "#{token}:kept", deadline)
            else connection.run(drop_share_sql, token, deadline)
            end
          answer.count.positive? ? waiting?(connection, key, deadline) : nil
        end

        # @return [Boolean] was it still held with this token?
        def prolong(connection, key, token, span, shared, deadline)
          answer =
            if shared then connection.run(prolong_share_sql, token, span, deadline)
            else connection.run(prolong_sql, key, token, span, deadline)
            end
          answer.count.positive?
        end

        # @return [Integer, nil] how long it is still held with this token, and since when
        def left(connection, key, token, shared, deadline)
          connection.run(shared ? share_left_sql : left_sql, *(shared ? [token] : [key, token]), deadline).rows.dig(0, 0)
        end

        # Another owner has it from now on, with another fence.
        #
        # @param claim [Integer, nil] the id, where the key can have several holders
        # @return [void]
        def hand_over(connection, key, claim, token, fence, expires_at, holder, deadline)
          if claim
            connection.run("UPDATE #{@claims} SET token = $2, fence = $3, expires_at = $4, holder = $5 WHERE id = $1",
                           claim, token, fence, expires_at, holder, deadline)
            connection.run("UPDATE #{@leases} SET fence = $2 WHERE name = $1", key, fence, deadline)
          else
            connection.run("UPDATE #{@leases} SET token = $2, fence = $3, expires_at = $4, holder = $5 WHERE name = $1",
                           key, token, fence, expires_at, holder, deadline)
          end
        end

        # The row of a key, and nobody else's until the transaction ends.
        #
        # @return [Head]
        def lock(connection, key, deadline)
          Head.new(*connection.run(lock_sql, key, deadline).rows.first)
        end

        # @return [Array<Claim>] in their order
        def claims(connection, key, deadline)
          connection.run(claims_sql, key, deadline).rows.map { |row| Claim.new(*row) }
        end

        # @return [void]
        def occupy(connection, key, token, fence, ttl, holder, waiting, deadline)
          connection.run(occupy_sql, key, token, fence, ttl, holder, waiting ? 1 : 0, deadline)
        end

        # Nobody holds it alone any more.
        #
        # @return [void]
        def vacate(connection, key, deadline)
          connection.run("UPDATE #{@leases} SET token = NULL, holder = NULL, expires_at = 0 WHERE name = $1", key, deadline)
        end

        # @return [void]
        def mark(connection, key, fence, waiting, deadline)
          connection.run("UPDATE #{@leases} SET fence = $2, acquired_at = #{now}, waiting = $3 WHERE name = $1",
                         key, fence, waiting ? 1 : 0, deadline)
        end

        # @return [void]
        def flag(connection, key, waiting, deadline)
          connection.run("UPDATE #{@leases} SET waiting = $2 WHERE name = $1", key, waiting ? 1 : 0, deadline)
        end

        # @param fence [Integer, nil] nil: it waits
        # @return [void]
        def enter(connection, key, token, share, fence, span, holder, deadline)
          connection.run("INSERT INTO #{@claims} (name, token, mode, slots, fence, acquired_at, expires_at, holder) " \
                         "VALUES ($1, $2, $3, $4, $5, #{now}, #{now} + $6, $7)",
                         key, token, share&.mode, share&.limit, fence, span, holder, deadline)
        end

        # @return [void]
        def admit(connection, id, fence, span, deadline)
          connection.run("UPDATE #{@claims} SET fence = $2, acquired_at = #{now}, expires_at = #{now} + $3 WHERE id = $1",
                         id, fence, span, deadline)
        end

        # It waits on.
        #
        # @return [Boolean] was it there?
        def stay(connection, token, span, deadline)
          connection.run("UPDATE #{@claims} SET expires_at = #{now} + $2 WHERE token = $1 AND fence IS NULL",
                         token, span, deadline).count.positive?
        end

        # @param ids [Array<Integer>]
        # @return [void]
        def remove(connection, ids, deadline)
          connection.run("DELETE FROM #{@claims} WHERE id IN (#{ids.join(", ")})", deadline) if ids.any?
        end

        # @return [void]
        def downgrade(connection, id, deadline)
          connection.run("UPDATE #{@claims} SET mode = 'r', slots = NULL WHERE id = $1", id, deadline)
        end

        # How things stand for one who waits: how long the key is still held, is anybody before it, how long its own place is kept.
        #
        # @return [Array(Integer, Boolean, Integer), nil] nil: its place is gone
        def look(connection, key, token, deadline)
          left, first, place = connection.run(look_sql, key, token, deadline).rows.first
          place && [left, first.zero?, place]
        end

        # @return [Integer] how long it is still held by one; 0 or less where it is not
        def held_for(connection, key, deadline)
          connection.run("SELECT expires_at - #{now} FROM #{@leases} WHERE name = $1", key, deadline).rows.dig(0, 0) || 0
        end

        # @return [Array(String, String), nil] what is noted of the first who waits, and its token
        def first(connection, key, deadline)
          connection.run("SELECT holder, token FROM #{@claims} WHERE name = $1 AND fence IS NULL AND expires_at > #{now} " \
                         "ORDER BY id LIMIT 1", key, deadline).rows.first
        end

        # @return [Array(Head, Array<Claim>)] without a lock
        def examine(connection, key, deadline)
          row = connection.run("SELECT token, fence, expires_at, waiting, holder, #{now}, acquired_at FROM #{@leases} " \
                               "WHERE name = $1", key, deadline).rows.first
          return unless row

          *head, acquired_at = row
          [Head.new(*head), acquired_at, claims(connection, key, deadline)]
        end

        # @return [Array<String>] the next names of keys that are held, in order
        def held(connection, prefix, after, deadline)
          connection.run("SELECT name FROM #{@leases} l WHERE substr(name, 1, $2) = $1 AND name > $3 AND (expires_at > #{now} OR " \
                         "EXISTS (SELECT 1 FROM #{@claims} c WHERE c.name = l.name AND c.fence IS NOT NULL AND " \
                         "c.expires_at > #{now})) ORDER BY name LIMIT #{LISTED_AT_ONCE}",
                         prefix, prefix.length, after, deadline).rows.flatten
        end

        # A note is a row of no lock: nobody ever holds it, and it never becomes old enough to be forgotten.
        #
        # @return [String, nil]
        def note(connection, name, deadline)
          connection.run("SELECT holder FROM #{@leases} WHERE name = $1", name, deadline).rows.dig(0, 0)
        end

        # @param replace [Boolean] even where there is one
        # @return [void]
        def keep_note(connection, name, note, replace, deadline)
          connection.run(keep_note_sql, name, note, deadline)
          connection.run("UPDATE #{@leases} SET holder = $2 WHERE name = $1", name, note, deadline) if replace
        end

        # Forgets keys that have been free for a day, and places that nobody kept.
        #
        # @return [void]
        def prune(connection, deadline)
          connection.run(prune_leases_sql, DAY, deadline)
          connection.run(prune_claims_sql, DAY, deadline)
        end

        private

        def waiting?(connection, key, deadline)
          connection.run("SELECT waiting FROM #{@leases} WHERE name = $1", key, deadline).rows.dig(0, 0) == 1
        end

        def acquire_sql
          @acquire_sql ||= <<~SQL.tr("\n", " ").strip
            INSERT INTO #{@leases} AS l (name, token, fence, acquired_at, expires_at, holder)
            VALUES ($1, $2, #{now}, #{now}, #{now} + $3, $4)
            ON CONFLICT (name) DO UPDATE SET token = excluded.token, fence = #{greater("l.fence + 1", "excluded.fence")},
            acquired_at = excluded.acquired_at, expires_at = excluded.expires_at, holder = excluded.holder
            WHERE l.expires_at <= excluded.acquired_at AND l.waiting = 0 RETURNING fence
          SQL
        end

        def release_sql
          @release_sql ||= <<~SQL.tr("\n", " ").strip
            UPDATE #{@leases} SET token = NULL, holder = CASE WHEN CAST($3 AS bigint) > 0 THEN holder END,
            expires_at = CASE WHEN CAST($3 AS bigint) > 0 THEN #{now} + $3 ELSE 0 END
            WHERE name = $1 AND token = $2 AND expires_at > #{now} RETURNING waiting
          SQL
        end

        def prolong_sql
          @prolong_sql ||= "UPDATE #{@leases} SET expires_at = #{now} + $3 WHERE name = $1 AND token = $2 AND expires_at > #{now}"
        end

        def left_sql
          @left_sql ||= "SELECT expires_at - #{now} FROM #{@leases} WHERE name = $1 AND token = $2 AND expires_at > #{now}"
        end

        def occupy_sql
          "UPDATE #{@leases} SET token = $2, fence = $3, acquired_at = #{now}, expires_at = #{now} + $4, holder = $5, waiting = $6 " \
            "WHERE name = $1"
        end

        def drop_share_sql = "DELETE FROM #{@claims} WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"

        def keep_share_sql
          "UPDATE #{@claims} SET expires_at = #{now} + $2, token = $3 WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"
        end

        def prolong_share_sql
          "UPDATE #{@claims} SET expires_at = #{now} + $2 WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"
        end

        def share_left_sql
          "SELECT expires_at - #{now} FROM #{@claims} WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"
        end

        def lock_sql
          "INSERT INTO #{@leases} (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = excluded.name " \
            "RETURNING token, fence, expires_at, waiting, holder, #{now}"
        end

        def claims_sql
          "SELECT id, token, mode, slots, fence, acquired_at, expires_at, holder FROM #{@claims} WHERE name = $1 ORDER BY id"
        end

        def look_sql
          @look_sql ||= <<~SQL.tr("\n", " ").strip
            SELECT l.expires_at - #{now}, (SELECT COUNT(*) FROM #{@claims} b WHERE b.name = c.name AND b.fence IS NULL
            AND b.id < c.id AND b.expires_at > #{now}), c.expires_at - #{now}
            FROM #{@claims} c JOIN #{@leases} l ON l.name = c.name WHERE c.name = $1 AND c.token = $2 AND c.fence IS NULL
          SQL
        end

        def keep_note_sql
          "INSERT INTO #{@leases} (name, holder, acquired_at) VALUES ($1, $2, #{NEVER}) ON CONFLICT (name) DO NOTHING"
        end

        def prune_leases_sql
          "DELETE FROM #{@leases} WHERE name IN (SELECT name FROM #{@leases} WHERE #{idle} LIMIT #{PRUNED_AT_ONCE}) AND #{idle}"
        end

        def prune_claims_sql = "DELETE FROM #{@claims} WHERE expires_at < #{now} - $1"

        # Those who share a key may hold it for longer than a day.
        def idle
          "waiting = 0 AND expires_at < #{now} AND acquired_at < #{now} - $1 AND " \
            "NOT EXISTS (SELECT 1 FROM #{@claims} c WHERE c.name = #{@leases}.name)"
        end
      end
    end
  end
end
