# frozen_string_literal: true

require "plock"
require "active_record"
require_relative "support/in_ruby"
require_relative "support/connection_watch"
require_relative "support/per_process"
require_relative "database/connection_source"
require_relative "database/connections"
require_relative "advisory/lease_state"
require_relative "advisory/mysql_locks"
require_relative "advisory/postgresql_locks"

module Plock
  class Store
    # Locks of a database that need no table: PostgreSQL's advisory locks, and GET_LOCK of MySQL and
    # MariaDB. The database holds them while a connection lives, so the lock of a process that dies
    # is free at once. It serves waiters in the order in which they came.
    # `require "plock/store/advisory"`.
    #
    # Each lease and each waiter has a connection of its own: at most `pool_size` in a process. The
    # connections have the settings of the given class, and are never in the caller's transaction.
    # A thread in the holder's process ends the lease when it expires. A fence is a time of the
    # database's clock, so fences grow only while that clock does. Leases cannot be handed over,
    # and keys cannot be listed. For locks of other processes, {Locking#status} reports what the
    # database knows of their connections. {Locking#break} cuts the holder's connection.
    #
    # With `scope: :connection`, a lock lasts as long as the connection. A pooler that lends a
    # PostgreSQL connection to each transaction would leave such locks to the next client of that
    # connection. If plock detects such a pooler, it raises {UnsupportedError}.
    # `scope: :transaction` (PostgreSQL) keeps a transaction of the lease open instead, and works
    # through such poolers.
    #
    # PostgreSQL has read-write locks, MySQL does not.
    #
    # @example
    #   require "plock/store/advisory"
    #   store = Plock::Store::Advisory.new(ActiveRecord::Base)
    #   store.acquire("rollup", ttl: 600, renew: true, wait: 0) { rollup }
    #
    # @!method close
    #   Closes the connections that are not in use. A store that is used after that opens them
    #   again.
    #   @return [nil]
    class Advisory
      include InRuby

      # The abilities that this store lacks on every database; see {Locking::ABILITIES}. On MySQL it
      # lacks more: ask {Locking#can?}.
      UNABLE = %i[lasting_fences busy_renewal semaphores hand_over list compares_secrets].freeze

      SCOPES = %i[connection transaction].freeze

      # Seconds between two checks whether a connection that was cut has ended.
      GONE_S = 0.002
      private_constant :SCOPES, :GONE_S

      # @param model [Class] an Active Record class; its database is the store
      # @param scope [Symbol] `:connection` or `:transaction`
      # @param pool_size [Integer] connections at most, for leases and waiters
      # @param attempt_timeout [Numeric] seconds, 0.001 to 3600, that an attempt with `wait: 0` may
      #   take
      # @param release_timeout [Numeric] seconds, 0.001 to 3600, that a release, or any other single
      #   call, may take
      # @param connect_timeout [Numeric] seconds, 0.001 to 3600, for one connection
      # @param unavailable_timeout [Numeric] seconds, 0.001 to 3600, after which an acquire that
      #   cannot reach the database gives up, even if its `wait:` is longer
      # @param options [Hash{Symbol => Object}] `:secret`, `:namespace`, `:ttl`, `:wait` and
      #   `:logger` as for {Store.open}
      # @raise [ArgumentError] an option of another name
      # @raise [ConfigurationError] a value that cannot be right
      # @raise [UnsupportedError] a database without advisory locks, or a scope that it does not
      #   have
      def initialize(
        model, scope: :connection, pool_size: 16, attempt_timeout: 1.0, release_timeout: 2.0,
        connect_timeout: 2.0, unavailable_timeout: 1.0, **options
      )
        set_up(profile_of(options), attempt_timeout)
        @reach = reach_within(unavailable_timeout)
        unless SCOPES.include?(scope)
          misconfigured("scope must be :connection or :transaction (got #{scope.inspect})")
        end
        @origin = Database::ConnectionSource.new(model)
        @locks = locks_of(@origin, scope)
        @release_timeout = check_seconds("release_timeout", release_timeout)
        @pool =
          Database::Connections.new(
            @origin, check_size("pool_size", pool_size, Pool::SIZES),
            check_seconds("connect_timeout", connect_timeout)
          )
        @here = PerProcess.new { {} }
      end

      # @return [String] the database's URL, without user and password
      def url
        "#{@origin.url} (advisory)"
      end

      # An advisory lock has no owner's name.
      #
      # @raise [UnsupportedError]
      def lock_acquire(*)
        raise UnsupportedError,
              "an advisory lock belongs to a connection: no owner's name can take or release it"
      end
      alias lock_release lock_acquire

      # @!visibility private
      # The rest is for {AcquireRequest}, {LeaseState} and {Renewal}.

      # @return [Database::Connections] the connections of the leases and waiters
      # @return [PostgresqlLocks, MysqlLocks]
      attr_reader :pool, :locks

      # @return [PerProcess] holders and waiters, by the server's ids of their connections
      attr_reader :here

      def ask(request, how, deadline)
        grant = request.grant
        unless grant.connection
          grant.connect(deadline)
          grant.note(grant.connection.server_id)
        end
        seconds = how == :once ? 0.0 : request.left.clamp(0.001, @locks.longest_wait)
        deadline = Clock.now + seconds + grace if seconds.positive? # the statement itself waits
        asked_at, server_id, fence =
          @locks.lock(grant.connection, grant.key, grant.share, seconds, deadline)
        return unless fence

        check(grant, server_id, deadline)
        # it may have been lost while the answer came
        unless grant.connection.lives?
          raise UnavailableError.new("the connection that has the lock was lost", code: :io)
        end

        grant.note(server_id)
        AcquireRequest::Answer.new(fence, seconds.zero? ? asked_at : Clock.now)
      rescue Database::Connection::Again # it collided with another request
        nil
      end

      # The database queues waiters. Only a request that collided with another waits here.
      def line_up(_request) = AcquireRequest::Place.new

      # Releases all that the grant's connection holds, or closes the connection.
      def take_back(grant, within = @release_timeout, **)
        grant.abandon(Clock.now + within)
      end

      # The same for a caller that must not wait: a connection that owes an answer is closed.
      def take_back_later(grant)
        grant.connection&.spoil if grant.connection&.busy?
        take_back(grant, AcquireRequest::AT_ONCE_S)
      end

      def forget(grant)
        super
        unlock_later(grant) if grant.ended == :lost
      end

      def prolong(grant, _span) = still?(grant)

      def still?(grant)
        @locks.held?(grant.connection, grant.key, grant.server_id, soon)
      rescue UnavailableError
        raise if grant.connection.usable?

        false
      end

      def give_back(grant, keep, deadline = nil)
        return grant.unlock(deadline || soon) unless keep.positive?

        grant.kept_until = Clock.now + keep
        unlock_later(grant, keep)
        true
      end

      def downgrade(grant)
        @locks.downgrade(grant.connection, grant.key, soon)
      end

      # @api private
      def adopt_hold(*)
        raise UnsupportedError, LeaseState::BOUND
      end

      # @api private
      def examine(key, shared, budget = nil)
        deadline = Clock.now + (budget || @release_timeout)
        holders, waiters =
          @pool.with(deadline) { |connection| @locks.examine(connection, key, shared, deadline) }
        return if holders.empty? && waiters.empty?

        here = known
        [
          holders.map { |id, host, mode| holder(here[id], host, mode) },
          waiters.map { |id, host, mode| waiter(here[id], host, mode) }
        ]
      end

      private

      def unlock_later(grant, delay = 0.0)
        @scheduler.call_later(delay) do
          grant.unlock(soon)
          nil
        end
      end

      # If the server's id of the connection has changed, there may be a pooler in between. The
      # lock is refused if there is.
      def check(grant, server_id, deadline)
        if grant.connection.server_id == server_id ||
           !@locks.astray?(grant.connection, server_id, @pool, deadline)
          return
        end

        raise UnsupportedError, @locks.class::ADVICE
      end

      def disconnect = @pool.close

      # @return [Hash{Integer => LeaseState}]
      def known = @here.enter(&:dup)

      # Some abilities are missing only on some databases.
      def unable
        UNABLE + @locks.unable
      end

      def locks_of(origin, scope)
        kind = origin.connection_class.name
        return PostgresqlLocks.new(scope) if kind.end_with?("Postgresql")
        raise UnsupportedError, "SQLite has no advisory locks" if kind.end_with?("Sqlite")
        return MysqlLocks.new unless scope == :transaction

        raise UnsupportedError, "MySQL has no locks that end with a transaction"
      end

      # Seconds after the end of `wait:` within which the database must answer.
      def grace = 0.2

      def soon = Clock.now + Background.at_most(@release_timeout)

      def grant_for(key, **options)
        LeaseState.new(self, key, Plock.token, guarded: true, **options)
      end

      def request_for(grant, ttl)
        share = grant.share or return super
        raise UnsupportedError, "there are no semaphores among advisory locks" unless share.name
        raise UnsupportedError, "MySQL has no read-write locks" unless can?(:read_write_locks)

        super
      end

      def each_key(_prefix)
        raise UnsupportedError, "advisory locks cannot be listed: the database has only numbers"
      end

      def holder(grant, host, mode)
        return Status.holder(host: host, mode: mode) unless grant

        left = [(grant.kept_until || grant.valid_until || Clock.now) - Clock.now, 0.0].max
        Status.holder(remaining: left, fence: grant.fence, **facts(grant, mode))
      end

      def waiter(grant, host, mode)
        grant ? Status.waiter(**facts(grant, mode)) : Status.waiter(host: host, mode: mode)
      end

      def facts(grant, mode)
        { since: grant.since, mode: mode || grant.share&.mode, **grant.owner }
      end

      def break_hold(key, _shared)
        deadline = soon
        # a lease that is released from now on is not lost, nor is a later one on its connection
        before = known
        ids = @pool.with(deadline) { |connection| @locks.holders(connection, key, deadline) }
        grants = known.merge(before)
        # a request that does not know yet that it has the key still uses its connection
        here, there = ids.partition { |id| grants[id]&.fence }
        broken = here.count { |id| grants[id].key == key && grants[id].take_away(deadline) }
        cut(key, there, deadline) if there.any?
        broken.positive? || there.any?
      end

      # @param ids [Array<Integer>] the server's ids of the holders' connections
      def cut(key, ids, deadline)
        @pool.with(deadline) do |connection|
          ids.each { |id| @locks.cut(connection, id, deadline) }
          while (@locks.holders(connection, key, deadline) & ids).any? && Clock.now < deadline
            sleep(GONE_S)
          end
        end
      end
    end
  end
end
