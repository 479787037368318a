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
      # What was acquired more than a minute from now was acquired before the clock was set back. Such a lease has from now on what it
      # had from its beginning; a place in the queue that lasts so long is nobody's.
      #
      # This is how PostgreSQL and SQLite are spoken to; MySQL needs other words for some of it.
      #
      # @api private
      class Tables
        # A key as it is found: who holds it alone, until when, and what the database's clock says.
        Head = Struct.new(:token, :fence, :expires_at, :waiting, :holder, :now)

        # Somebody who waits, or shares.
        Claim = Struct.new(:id, :token, :mode, :limit, :fence, :acquired_at, :expires_at, :holder)

        DAY = 86_400 * 1_000_000
        ALL = 1_000_000_000 # MySQL reads a table that a statement changes only in a subquery with a limit
        NEVER = (2**63) - 1 # a moment that is always to come
        PLACE_KEPT = 60 * 1_000_000 # that its time has been over for so long says that its owner is gone
        STEP = 60 * 1_000_000 # so far ahead of the clock is what was written before the clock was set back; a statement waits less
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

        # Takes or keeps a place in the wait queue of a key, and the key itself if this request is the
        # first one there and the key has room for it.
        #
        # @param queue [Boolean] is it to keep its place if it is refused?
        # @return [Array(Integer, Integer, Integer, String, String)] the fence, or nil; for how long
        #   the key is still held, or nil; how many wait before it; who is first in the queue after
        #   that, and its token, or nil
        def ask(connection, key, token, share, ttl, place, holder, queue, deadline)
          statements = [lock_row, prune_claims_of_key, take_place, *(share ? share_key : occupy_key),
                        queue ? leave_place_if_held : leave_place, flag, outcome]
          connection.batch(statements, { key: key, token: token, mode: share&.mode, slots: share&.limit, ttl: ttl,
                                         place: place, holder: holder }, "iiiss", deadline).first
        end

        # Takes back everything that a token has of a key.
        #
        # @return [Array(String, String), nil] whom to call: what is noted of it, and its token
        def settle(connection, key, token, deadline)
          statements = [lock_row, vacate("name = $key AND token = $token"),
                        "DELETE FROM #{@claims} WHERE token = $token", prune_claims_of_key, flag, first_of_queue("l.expires_at <= #{now}")]
          connection.batch(statements, { key: key, token: token }, "ss", deadline).first
        end

        # Forgets places that are over, so that the next caller need not look for them.
        #
        # @return [Boolean] does nobody have it, and nobody wait?
        def tidy(connection, key, deadline)
          idle = "SELECT CASE WHEN expires_at <= #{now} AND NOT EXISTS (SELECT 1 FROM #{@claims} WHERE name = $key) THEN 1 ELSE 0 END " \
                 "FROM #{@leases} WHERE name = $key"
          connection.batch([lock_row, prune_claims_of_key, flag, idle], { key: key }, "i", deadline).dig(0, 0) == 1
        end

        # @return [Array<Array(String, String, Integer)>] what is noted of each holder, and of the first
        #   who waits, its token, and 1 for a holder, 0 for who waits
        def break(connection, key, deadline)
          told = "SELECT holder, token, 1 FROM #{@leases} WHERE name = $key AND expires_at > #{now} UNION ALL " \
                 "SELECT holder, token, 1 FROM #{@claims} WHERE name = $key AND fence IS NOT NULL UNION ALL " \
                 "SELECT holder, token, 0 FROM #{@claims} WHERE id = (SELECT MIN(id) FROM #{@claims} WHERE name = $key AND fence IS NULL)"
          statements = [lock_row, prune_claims_of_key, told,
                        vacate("name = $key"),
                        "DELETE FROM #{@claims} WHERE name = $key AND fence IS NOT NULL", flag]
          connection.batch(statements, { key: key }, "ssi", deadline)
        end

        # Makes a reader of a writer.
        #
        # @return [Array(Integer, String, String)] 1: it was held; and whom to call, or nil
        def downgrade(connection, key, token, deadline)
          ours = "SELECT COUNT(*) FROM #{@claims} WHERE token = $token AND fence IS NOT NULL"
          statements = [lock_row, prune_claims_of_key,
                        "UPDATE #{@claims} SET mode = 'r', slots = NULL WHERE token = $token AND fence IS NOT NULL",
                        first_of_queue("1 = 1", "(#{ours})")]
          connection.batch(statements, { key: key, token: token }, "iss", deadline).first
        end

        # Another owner has it from now on, with another fence.
        #
        # @param from [String] the token of the owner that left it
        # @param ttl [Integer, nil] nil: it keeps its end
        # @return [Array(Integer, Integer), nil] fence, and what is left of it; nil: it is not held any more
        def hand_over(connection, key, from, token, ttl, holder, shared, deadline)
          changes = "token = $token, holder = $holder, expires_at = COALESCE(#{now} + $ttl, expires_at), " \
                    "acquired_at = CASE WHEN $ttl IS NULL THEN acquired_at ELSE #{lesser("acquired_at", now)} END"
          statements = [lock_row, *(shared ? hand_over_share(changes) : hand_over_key(changes))]
          connection.batch(statements, { key: key, from: from, token: token, ttl: ttl, holder: holder }, "ii", deadline).first
        end

        # @return [String, nil] what is noted of the owner that has this token
        def holder_of(connection, token, key, shared, deadline)
          table, condition = shared ? [@claims, "token = $1"] : [@leases, "token = $1 AND name = $2"]
          connection.run("SELECT holder FROM #{table} WHERE #{condition}", *[token, *(key unless shared)], deadline).rows.dig(0, 0)
        end

        # Takes several keys, all or none.
        #
        # @param wanted [Array<Array(String, String, String)>] key, token, and what is to be noted of it
        # @return [Hash{String => Integer}] by keys that were free, their fences; they are held when all were
        def acquire_all(connection, wanted, ttl, deadline)
          binds = { ttl: ttl, count: wanted.size }
          wanted.each_with_index { |(key, token, holder), at| binds.update("key#{at}": key, "token#{at}": token, "holder#{at}": holder) }
          places = wanted.each_index.sort_by { |at| wanted[at].first } # in one order everywhere: else two could wait for each other
          ours = "name IN (#{places.map { |at| "$key#{at}" }.join(", ")}) AND token IN (#{places.map { |at| "$token#{at}" }.join(", ")})"
          statements = [lock_rows(places), *forget_waiters(places), *places.map { |at| take_row(at) }, "SELECT name, fence FROM #{@leases} WHERE #{ours}",
                        vacate("#{ours} AND (SELECT COUNT(*) FROM (SELECT name FROM #{@leases} WHERE #{ours} LIMIT #{ALL}) AS taken) < $count")]
          connection.batch(statements, binds, "si", deadline).to_h
        end

        # Renews leases of one holder each.
        #
        # @param names [Hash{String => String}] their keys, by tokens
        # @return [Array<String>] the tokens of those that were renewed; the others may be locked at
        #   the moment, or be held no more
        def prolong_all(connection, names, span, deadline)
          mine = among(connection, names)
          connection.run("UPDATE #{@leases} SET #{ends_in(span)} WHERE #{mine}", deadline)
          connection.run("SELECT token FROM #{@leases} WHERE #{mine}", deadline).rows.flatten
        end

        # How things stand for one who waits: how long the key is still held, is anybody before it, how long its own place is kept.
        #
        # @return [Array(Integer, Boolean, Integer), nil] nil: its place is gone
        def look(connection, key, token, deadline)
          left, first, place = connection.run(look_sql, key, token, deadline).rows.first
          place && [left, first.zero?, place]
        end

        # @return [Integer] how long it is still held by one; 0 or less where it is not, or that is to be found out under its lock
        def held_for(connection, key, deadline)
          left = "CASE WHEN #{ahead("acquired_at")} THEN 0 ELSE expires_at - #{now} END"
          connection.run("SELECT #{left} FROM #{@leases} WHERE name = $1", key, deadline).rows.dig(0, 0) || 0
        end

        # @return [Array(String, String), nil] what is noted of the first who waits, and its token
        def first(connection, key, deadline)
          connection.run("SELECT holder, token FROM #{@claims} WHERE name = $1 AND fence IS NULL AND expires_at > #{now} " \
                         "ORDER BY id LIMIT 1", key, deadline).rows.first
        end

        # @return [Array<Claim>] in their order
        def claims(connection, key, deadline)
          connection.run(claims_sql, key, deadline).rows.map { |row| Claim.new(*row) }
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
        # @return [Boolean] may there be more?
        def prune(connection, deadline)
          connection.run(prune_claims_sql, PLACE_KEPT, deadline)
          connection.run(prune_leases_sql, DAY, deadline).count >= PRUNED_AT_ONCE
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
            expires_at = CASE WHEN CAST($3 AS bigint) > 0 THEN #{now} + $3 ELSE 0 END, acquired_at = #{lesser("acquired_at", now)}
            WHERE name = $1 AND token = $2 AND expires_at > #{now} RETURNING waiting
          SQL
        end

        def prolong_sql
          @prolong_sql ||= "UPDATE #{@leases} SET #{ends_in("$3")} WHERE name = $1 AND token = $2 AND expires_at > #{now}"
        end

        def left_sql
          @left_sql ||= "SELECT expires_at - #{now} FROM #{@leases} WHERE name = $1 AND token = $2 AND expires_at > #{now}"
        end

        # --- parts of batches ---

        # Every batch locks the key's row first, and reads the queue under that lock.
        def lock_row = "INSERT INTO #{@leases} (name) VALUES ($key) #{on_conflict(in_time(@leases))}"

        def lock_rows(places)
          "INSERT INTO #{@leases} (name) VALUES #{places.map { |at| "($key#{at})" }.join(", ")} #{on_conflict(in_time(@leases))}"
        end

        def on_conflict(changes) = "ON CONFLICT (name) DO UPDATE SET #{changes}"

        # Says of a moment that it was told before the clock was set back.
        def ahead(moment) = "#{moment} > #{now} + #{STEP}"

        # From now on it has what it had from its beginning, if the clock was set back since.
        def in_time(table)
          set_back = "#{table}.expires_at > #{now} AND #{ahead("#{table}.acquired_at")}"
          "expires_at = CASE WHEN #{set_back} THEN #{now} + #{table}.expires_at - #{table}.acquired_at ELSE #{table}.expires_at END, " \
            "acquired_at = CASE WHEN #{set_back} THEN #{now} ELSE #{table}.acquired_at END"
        end

        # No lease begins later than its new end was written.
        def ends_in(span) = "expires_at = #{now} + #{span}, acquired_at = #{lesser("acquired_at", now)}"

        # Nobody has this claim any more.
        def over = "(expires_at <= #{now} OR (fence IS NULL AND #{ahead("expires_at")}))"

        # Keys whose waiters are all gone can be taken like any other.
        def forget_waiters(places)
          names = "IN (#{places.map { |at| "$key#{at}" }.join(", ")})"
          ["DELETE FROM #{@claims} WHERE name #{names} AND #{over}",
           "UPDATE #{@leases} SET waiting = 0 WHERE name #{names} AND waiting <> 0 AND NOT EXISTS (SELECT 1 FROM #{@claims} c " \
           "WHERE c.name = #{@leases}.name AND c.fence IS NULL AND #{alive("c")})"]
        end

        def take_row(at)
          "UPDATE #{@leases} SET token = $token#{at}, holder = $holder#{at}, fence = #{next_fence}, acquired_at = #{now}, " \
            "expires_at = #{now} + $ttl WHERE name = $key#{at} AND expires_at <= #{now} AND waiting = 0"
        end

        def prune_claims_of_key = "DELETE FROM #{@claims} WHERE name = $key AND #{over}"

        def take_place
          "INSERT INTO #{@claims} (name, token, mode, slots, fence, acquired_at, expires_at, holder) " \
            "VALUES ($key, $token, $mode, $slots, NULL, #{now}, #{now} + $place, $holder) " \
            "ON CONFLICT (token) DO UPDATE SET expires_at = excluded.expires_at, holder = excluded.holder"
        end

        def next_fence = greater("fence + 1", now)

        # One holder: the key is free, nobody shares it, and nobody alive waits before this request.
        def occupy_key
          ["UPDATE #{@leases} SET token = $token, holder = $holder, fence = #{next_fence}, acquired_at = #{now}, " \
           "expires_at = #{now} + $ttl WHERE name = $key AND expires_at <= #{now} AND NOT EXISTS (SELECT 1 FROM #{@claims} c " \
           "WHERE c.name = $key AND (c.fence IS NOT NULL OR (#{before("c")})))"]
        end

        # Several holders of one mode, up to so many.
        def share_key
          inside = "(SELECT mode FROM #{@claims} WHERE name = $key AND fence IS NOT NULL LIMIT #{ALL}) AS c"
          queue = "(SELECT id, holder FROM #{@claims} WHERE name = $key AND fence IS NULL LIMIT #{ALL}) AS c"
          own = "(SELECT id FROM (SELECT id FROM #{@claims} WHERE token = $token LIMIT 1) AS mine)"
          ["UPDATE #{@claims} SET #{in_time(@claims)} WHERE name = $key AND fence IS NOT NULL AND #{ahead("acquired_at")}",
           "UPDATE #{@claims} SET fence = (SELECT #{next_fence} FROM #{@leases} WHERE name = $key), acquired_at = #{now}, " \
           "expires_at = #{now} + $ttl WHERE token = $token AND fence IS NULL " \
           "AND NOT EXISTS (SELECT 1 FROM #{@leases} l WHERE l.name = $key AND l.expires_at > #{now}) " \
           "AND NOT EXISTS (SELECT 1 FROM #{inside} WHERE c.mode <> $mode) " \
           "AND (SELECT COUNT(*) FROM #{inside}) < COALESCE($slots, #{ALL}) " \
           "AND NOT EXISTS (SELECT 1 FROM #{queue} WHERE c.id < #{own} AND #{alive("c")})",
           mark]
        end

        # The key's row has the fence of the last lease.
        def mark
          latest = "(SELECT c.fence FROM #{@claims} c WHERE c.token = $token AND c.fence IS NOT NULL)"
          "UPDATE #{@leases} SET fence = #{latest}, acquired_at = #{now} WHERE name = $key AND #{latest} > fence"
        end

        def before(claim)
          "#{claim}.id < (SELECT id FROM #{@claims} WHERE token = $token) AND #{alive(claim)}"
        end

        # @return [String] the condition that the process that has this claim is not known to have ended
        def alive(_claim) = "1 = 1"

        # No owner holds the key alone any more.
        def vacate(condition)
          "UPDATE #{@leases} SET token = NULL, holder = NULL, expires_at = 0 WHERE #{condition}"
        end

        def leave_place = "DELETE FROM #{@claims} WHERE token = $token AND fence IS NULL"

        def leave_place_if_held
          "#{leave_place} AND EXISTS (SELECT 1 FROM #{@leases} WHERE name = $key AND token = $token)"
        end

        def flag
          waiting = "CASE WHEN EXISTS (SELECT 1 FROM #{@claims} WHERE name = $key AND fence IS NULL) THEN 1 ELSE 0 END"
          "UPDATE #{@leases} SET waiting = #{waiting} WHERE name = $key AND waiting <> #{waiting}"
        end

        def outcome
          fence = "CASE WHEN l.token = $token THEN l.fence ELSE (SELECT fence FROM #{@claims} WHERE token = $token) END"
          left = "CASE WHEN l.expires_at > #{now} THEN l.expires_at - #{now} ELSE " \
                 "(SELECT MIN(expires_at) FROM #{@claims} WHERE name = $key AND fence IS NOT NULL) - #{now} END"
          first_of_queue("1 = 1", "#{fence}, #{left}, (SELECT COUNT(*) FROM #{@claims} c WHERE c.name = $key AND c.fence IS NULL AND (#{before("c")}))")
        end

        # @param columns [String] what else to tell
        # @return [String] a row, if the condition holds: what is noted of the first who waits, and its token
        def first_of_queue(condition, columns = nil)
          "SELECT #{"#{columns}, " if columns}c.holder, c.token FROM #{@leases} l LEFT JOIN #{@claims} c ON " \
            "c.id = (SELECT MIN(q.id) FROM #{@claims} q WHERE q.name = $key AND q.fence IS NULL AND #{alive("q")}) " \
            "WHERE l.name = $key AND #{condition}"
        end

        def hand_over_key(changes)
          ["UPDATE #{@leases} SET fence = #{next_fence}, #{changes} WHERE name = $key AND token = $from AND expires_at > #{now}",
           "SELECT fence, expires_at - #{now} FROM #{@leases} WHERE name = $key AND token = $token"]
        end

        def hand_over_share(changes)
          ["UPDATE #{@claims} SET fence = (SELECT #{next_fence} FROM #{@leases} WHERE name = $key), #{changes} " \
           "WHERE token = $from AND fence IS NOT NULL AND expires_at > #{now}", mark,
           "SELECT fence, expires_at - #{now} FROM #{@claims} WHERE token = $token"]
        end

        def among(connection, names)
          lists = [names.values, names.keys].map { |some| some.map { |text| connection.literal(text) }.join(", ") }
          "name IN (#{lists[0]}) AND token IN (#{lists[1]}) AND expires_at > #{now}"
        end

        # --- single statements ---

        def drop_share_sql = "DELETE FROM #{@claims} WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"

        def keep_share_sql
          "UPDATE #{@claims} SET #{ends_in("$2")}, token = $3 WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"
        end

        def prolong_share_sql
          "UPDATE #{@claims} SET #{ends_in("$2")} WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"
        end

        def share_left_sql
          "SELECT expires_at - #{now} FROM #{@claims} WHERE token = $1 AND fence IS NOT NULL AND expires_at > #{now}"
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
          "expires_at < #{now} AND acquired_at < #{now} - $1 AND " \
            "NOT EXISTS (SELECT 1 FROM #{@claims} c WHERE c.name = #{@leases}.name)"
        end
      end
    end
  end
end
