# frozen_string_literal: true

require "openssl"
require_relative "../../clock"

module Plock
  class Store
    class Advisory
      # The statements for PostgreSQL's advisory locks. A 64-bit number names each lock.
      #
      # @api private
      class PostgresqlLocks
        ADVICE = "a pooler before PostgreSQL lends a connection to each transaction, and would " \
                 "leave the lock to the next client of that connection: use scope: " \
                 ":transaction, or connect to PostgreSQL itself"

        # How many connections are opened at once to detect a pooler.
        TRIALS = 3

        NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        NUMBERS = "classid = (($1::bigint >> 32) & 4294967295)::oid AND " \
                  "objid = ($1::bigint & 4294967295)::oid AND objsubid = 1"
        OURS = "locktype = 'advisory' AND " \
               "database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND " \
               "#{NUMBERS}"
        MODES = { "ShareLock" => "r", "ExclusiveLock" => "w" }.freeze
        private_constant :TRIALS, :NOW, :NUMBERS, :OURS, :MODES

        def initialize(scope)
          @transaction = scope == :transaction
        end

        def unable = @transaction ? %i[downgrade] : []

        # Seconds that one statement may wait. The database does not allow a longer limit, so a
        # caller with a longer `wait:` asks again.
        def longest_wait = 2_147_483.0

        def number(key)
          OpenSSL::Digest::SHA256.digest(key).unpack1("q>")
        end

        # @param seconds [Float] the longest wait in the database; 0.0: one attempt, without waiting
        # @return [Array(Float, Integer, Integer), nil] when the database was asked, the id of the
        #   server process, and the fence; nil: the key is held
        def lock(connection, key, share, seconds, deadline)
          binds = [number(key)]
          if seconds.positive?
            # PostgreSQL evaluates the columns from left to right
            taking = "set_config('lock_timeout', $2, true), #{function("", share)}::text"
            binds << (seconds * 1000).ceil.to_s
          else
            taking = function("try_", share)
          end
          sql = "SELECT #{taking}, pg_backend_pid(), #{NOW}"
          run = @transaction ? :run_in_open_transaction : :run
          connection.stay_open(deadline) unless @transaction
          asked_at = Clock.now
          held, *, server_id, fence = connection.public_send(run, sql, *binds, deadline).row
          [asked_at, server_id, fence] if held
        end

        # The lock belongs to one server process. A pooler may route the connection to another one.
        #
        # @return [Boolean] does this connection still hold the lock?
        def held?(connection, _key, server_id, deadline)
          connection.run("SELECT pg_backend_pid()", deadline).value == server_id
        end

        # @return [Boolean] was the lock held?
        def unlock(connection, key, share, server_id, deadline)
          if @transaction
            return connection.in_transaction? && !connection.run("COMMIT", deadline).nil?
          end

          sql = "SELECT #{unlocking(share)}, pg_backend_pid()"
          unlocked, now_at = connection.run(sql, number(key), deadline).row
          return unlocked if now_at == server_id

          cut(connection, server_id, deadline) # the lock is still held by that server process
          raise UnsupportedError, ADVICE
        end

        # Releases all locks that the connection holds, and returns true.
        def clean(connection, deadline)
          !connection.run(
            @transaction ? "ROLLBACK" : "SELECT pg_advisory_unlock_all()", deadline
          ).nil?
        end

        # @return [Boolean] was the lock held?
        def downgrade(connection, key, deadline)
          if @transaction
            raise UnsupportedError,
                  "a lock that lasts as long as a transaction cannot be downgraded"
          end

          sql = "SELECT pg_advisory_lock_shared($1)::text, pg_advisory_unlock($1)"
          connection.run(sql, number(key), deadline).row.last
        end

        # @return [Array(Array, Array)] the holders, and the waiters in order; each is an array of
        #   the id of the server process, the host and the mode
        def examine(connection, key, shared, deadline)
          rows =
            connection.run(
              "SELECT l.pid, a.client_hostname, host(a.client_addr), l.mode, l.granted " \
                "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE #{OURS} " \
                "ORDER BY to_jsonb(l)->>'waitstart', l.pid",
              number(key),
              deadline
            ).rows
          rows.partition(&:last).map do |some|
            some.map { |id, name, address, mode, _| [id, name || address, (MODES[mode] if shared)] }
          end
        end

        # The ids of the holders' server processes.
        def holders(connection, key, deadline)
          sql = "SELECT pid FROM pg_locks WHERE #{OURS} AND granted"
          connection.run(sql, number(key), deadline).rows.flatten
        end

        def cut(connection, id, deadline)
          connection.run("SELECT pg_terminate_backend($1)", id, deadline)
        end

        # Does a pooler lend the server's connection with the lock to other clients?
        def astray?(connection, server_id, pool, deadline, trials = TRIALS)
          return false if @transaction

          pool.with(deadline, Float::INFINITY) do |other| # even if all connections are in use
            other.spoil # it will be in a transaction, so it must not be used again
            other.run("BEGIN", deadline)
            there = other.run("SELECT pg_backend_pid()", deadline).value
            there == server_id || !held?(connection, nil, server_id, deadline) ||
              (trials > 1 && astray?(connection, server_id, pool, deadline, trials - 1))
          end
        end

        private

        # The lease of a read-write lock may just have been downgraded, so the database may have the
        # lock in either mode. This tries to unlock both.
        def unlocking(share)
          return "pg_advisory_unlock($1)" unless share

          suffixes = share.mode == "r" ? ["_shared", ""] : ["", "_shared"]
          suffixes.map { |suffix| "pg_advisory_unlock#{suffix}($1)" }.join(" OR ")
        end

        def function(kind, share)
          suffix = "_shared" if share&.mode == "r"
          "pg_#{kind}advisory_#{"xact_" if @transaction}lock#{suffix}(#{argument})"
        end

        # The SQL expression that names the lock. Its parameter is the value of {#number}.
        def argument = "$1"
      end
    end
  end
end
