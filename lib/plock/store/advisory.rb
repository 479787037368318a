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
    # MariaDB. The database holds a lock for as long as the holder's connection lives, so the lock
    # of a process that dies is free at once. The database serves waiters in the order of their
    # arrival. The store needs `require "plock/store/advisory"`.
    #
    # Each lease and each waiter uses a connection of its own, so a process can have at most
    # `pool_size` leases and waiters. The connections have the settings of the given class, and are
    # never part of the caller's transaction. A thread in the holder's process ends the lease when
    # it expires. Fences are times on the database's clock, so they can become smaller if that clock
    # is set back. Leases cannot be handed over, and keys cannot be listed. If another process holds
    # the lock, {Locking#status} reports what the database knows about the holder's connection, and
    # {Locking#break} cuts that connection.
    #
    # With `scope: :connection`, a lock lasts as long as the connection. A pooler that lends a
    # PostgreSQL connection to each transaction would leave such locks to the next client of that
    # connection. If plock detects such a pooler, it raises {UnsupportedError}.
    # `scope: :transaction` (PostgreSQL only) keeps a transaction open for as long as the lease
    # lasts, and works through such poolers.
    #
    # PostgreSQL has read-write locks, MySQL does not.
    #
    # @example
    #   require "plock/store/advisory"
    #   store = Plock::Store::Advisory.new(ActiveRecord::Base)
    #   store.acquire("rollup", ttl: 600, renew: true, wait: 0) { rollup }
    #
    # @!method close
    #   Closes the connections that are not in use. The next use of the store opens new ones.
    #   @return [nil]
    class Advisory
      include InRuby

      # The abilities that this store lacks on every database; see {Locking::ABILITIES}. On MySQL it
      # lacks more, as {Locking#can?} reports.
      UNABLE = %i[
        lasting_fences busy_renewal semaphores hand_over list compares_secrets background_release
        replicas
      ].freeze

      SCOPES = %i[connection transaction].freeze

      # @api private
      # After the end of `wait:`, the database must answer within this many seconds.
      GRACE_S = 0.15

      # Seconds between two checks of whether a connection that was cut has ended.
      GONE_S = 0.002
      private_constant :SCOPES, :GONE_S

      # @param model [Class] an Active Record class; its database is the store
      # @param scope [Symbol] `:connection` or `:transaction`
      # @param pool_size [Integer] the largest number of connections for leases and waiters;
      #   {Locking#status} and {Locking#break} use one more while all are in use
      # @param attempt_timeout [Numeric] seconds, 0.001 to 3600, that the first attempt of a call
      #   may take. That attempt does not wait for the lock.
      # @param release_timeout [Numeric] seconds, 0.001 to 3600, that a release, or any other single
      #   call, may take
      # @param connect_timeout [Numeric] seconds, 0.001 to 3600, that opening a connection may
      #   take
      # @param unavailable_timeout [Numeric] seconds, 0.001 to 3600, after which an acquire that
      #   cannot reach the database gives up, even if its `wait:` is longer
      # @param options [Hash{Symbol => Object}] `:secret`, `:namespace`, `:ttl`, `:wait` and
      #   `:logger` as for {Store.open}
      # @raise [ArgumentError] an unknown option
      # @raise [ConfigurationError] an invalid value
      # @raise [UnsupportedError] a database without advisory locks, or a scope that the database
      #   does not support
      def initialize(
        model, scope: :connection, pool_size: 16, attempt_timeout: 1.0, release_timeout: 2.0,
        connect_timeout: 2.0, unavailable_timeout: 1.0, **options
      )
        config = config_of(options)
        unless SCOPES.include?(scope)
          misconfigured("scope must be :connection or :transaction (got #{scope.inspect})")
        end
        @origin = Database::ConnectionSource.new(model)
        @locks = locks_of(@origin, scope)
        set_up(config, attempt_timeout)
        @reach = reach_within(unavailable_timeout)
        @release_timeout = check_seconds("release_timeout", release_timeout)
        @pool =
          Database::Connections.new(
            @origin, check_pool_size(pool_size),
            check_seconds("connect_timeout", connect_timeout)
          )
        @here = PerProcess.new { {} }
      end

      # @return [String] the database's URL, without user and password
      def url
        "#{@origin.url} (advisory)"
      end

      # Not supported, because an advisory lock belongs to a connection, and not to a named owner.
      #
      # @raise [UnsupportedError]
      def lock_acquire(*)
        raise UnsupportedError,
              "an advisory lock belongs to a connection: no owner's name can take or release it"
      end
      alias lock_release lock_acquire

      # @!visibility private
      # The following methods are for {AcquireRequest}, {LeaseState} and {Renewal}.

      # @return [Database::Connections] the connections of the leases and waiters
      # @return [PostgresqlLocks, MysqlLocks]
      attr_reader :pool, :locks

      # The holders and waiters of this process, by the server's ids of their connections.
      attr_reader :here

      def ask(request, how, deadline)
        lease = request.lease
        lease.connect(deadline) unless lease.connection
        seconds = how == :once ? 0.0 : request.left.clamp(0.001, @locks.longest_wait)
        lease.note(lease.connection.server_id) if seconds.positive? && lease.server_id.nil?
        # the statement itself may wait for `seconds`, so its deadline is later
        deadline = Clock.now + seconds + GRACE_S if seconds.positive?
        asked_at, server_id, fence =
          @locks.lock(lease.connection, lease.key, lease.share, seconds, deadline)
        return unless fence

        check(lease, server_id, deadline)
        # the connection may have been lost while the answer arrived
        unless lease.connection.lives?
          raise UnavailableError.new("the connection that has the lock was lost", code: :io)
        end

        lease.note(server_id)
        AcquireRequest::Answer.new(fence, seconds.zero? ? asked_at : Clock.now)
      rescue Database::Connection::Again # the statement may succeed if it is sent again
        nil
      end

      # The database queues the waiters, so this process has no queue. A request waits in this Place
      # only in the pauses between two statements.
      def line_up(_request) = AcquireRequest::Place.new

      # Releases every lock that the lease's connection holds. If that fails, closes the connection.
      def take_back(lease, within = @release_timeout, **)
        lease.abandon(Clock.now + within)
      end

      # Like {#take_back}, for a caller that must wait only briefly. Closes the connection if an
      # answer is outstanding.
      def take_back_later(lease)
        lease.connection&.spoil if lease.connection&.busy?
        take_back(lease, AcquireRequest::AT_ONCE_S)
      end

      def forget(lease)
        super
        unlock_later(lease) if lease.ended == :lost
      end

      def prolong(lease, _span) = still?(lease)

      def still?(lease)
        @locks.held?(lease.connection, lease.key, lease.server_id, release_deadline)
      rescue UnavailableError
        raise if lease.connection.usable?

        false
      end

      def release_deadline = Clock.now + Background.at_most(@release_timeout)

      def give_back(lease, keep, deadline = nil)
        return lease.unlock(deadline || release_deadline) unless keep.positive?

        lease.kept_until = Clock.now + keep
        unlock_later(lease, keep)
        true
      end

      # One attempt is enough, because a failed one closes the connection.
      def give_back_later(lease, keep)
        lease.kept_until = Clock.now + keep if keep.positive?
        unlock_later(lease, keep)
      end

      def downgrade(lease)
        @locks.downgrade(lease.connection, lease.key, release_deadline)
      end

      # @api private
      def adopt_hold(*, **)
        raise UnsupportedError, LeaseState::BOUND
      end

      # @api private
      def examine(key, shared, budget = nil)
        deadline = Clock.now + (budget || @release_timeout)
        holders, waiters =
          beside(deadline) { |connection| @locks.examine(connection, key, shared, deadline) }
        return if holders.empty? && waiters.empty?

        here = known
        [
          holders.map { |id, host, mode| holder(here[id], host, mode) },
          waiters.map { |id, host, mode| Status.waiter(**facts(here[id], host, mode)) }
        ]
      end

      private

      def unlock_later(lease, delay = 0.0)
        @scheduler.call_later(delay) do
          lease.in_turn { lease.unlock(release_deadline) }
          nil
        end
      end

      # Refuses the lock if a pooler lends the server's connection to other clients. Without such a
      # pooler, the server's id of the connection never changes.
      def check(lease, server_id, deadline)
        return if lease.connection.server_id == server_id

        if @locks.astray?(lease.connection, server_id, @pool, deadline)
          raise UnsupportedError, @locks.class::ADVICE
        end
      end

      # If leases and waiters use all connections, the pool opens one more for this call.
      def beside(deadline, &block) = @pool.with(deadline, Pool::RELEASE, &block)

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

      def lease_for(key, **options)
        LeaseState.new(self, key, Plock.token, guarded: true, **options)
      end

      def request_for(lease, ttl)
        share = lease.share or return super
        raise UnsupportedError, "there are no semaphores among advisory locks" unless share.name
        raise UnsupportedError, "MySQL has no read-write locks" unless can?(:read_write_locks)

        super
      end

      def keys_after(_prefix, _cursor)
        raise UnsupportedError, "advisory locks cannot be listed: the database has only numbers"
      end

      def holder(lease, host, mode)
        facts = facts(lease, host, mode)
        return Status.holder(**facts) unless lease

        left = [(lease.kept_until || lease.valid_until || Clock.now) - Clock.now, 0.0].max
        Status.holder(remaining: left, fence: lease.fence, **facts)
      end

      # @param lease [LeaseState, nil] nil: the connection belongs to another process
      def facts(lease, host, mode)
        return { host: host, mode: mode } unless lease

        { since: lease.since, mode: mode || lease.share&.mode, **lease.owner }
      end

      def break_hold(key, _shared, only)
        fences = only&.map(&:fence) # the fence of a holder in another process is nil
        deadline = release_deadline
        # lists the leases of this process before it asks for the holders' connections: a connection
        # may change to another lease meanwhile, and that lease must not be broken
        before = known
        ids = beside(deadline) { |connection| @locks.holders(connection, key, deadline) }
        leases = known.merge(before)
        ids = ids.select { |id| fences.include?(leases[id]&.fence) } if fences
        # the server may have granted a request of this process that has not read the answer yet;
        # such a request has no fence, so its connection is cut
        here, there = ids.partition { |id| leases[id]&.fence }
        broken = here.count { |id| leases[id].key == key && leases[id].take_away(deadline) }
        cut(key, there, deadline) if there.any?
        broken.positive? || there.any?
      end

      def cut(key, ids, deadline)
        beside(deadline) do |connection|
          ids.each { |id| @locks.cut(connection, id, deadline) }
          while (@locks.holders(connection, key, deadline) & ids).any? && Clock.now < deadline
            sleep(GONE_S)
          end
        end
      end
    end
  end
end
