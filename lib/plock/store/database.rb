# frozen_string_literal: true

require "plock"
require "active_record"
require_relative "support/in_ruby"
require_relative "support/by_owner"
require_relative "database/connection_source"
require_relative "database/coordinator"
require_relative "database/in_transaction"
require_relative "database/place"

module Plock
  class Store
    # Locks in a database of the application: PostgreSQL, MySQL, MariaDB or SQLite, through Active
    # Record. Leases, fences, strict order of waiters, status and everything else work as on
    # Redis. Times are on the database's clock.
    #
    # The store needs `require "plock/store/database"`, and two tables. The command
    # `rails generate plock:database` makes the migration for them.
    #
    # The store opens its own connections, with the settings of the given class. So a lease is not
    # part of the caller's transaction, and other processes see it at once. A release does not
    # depend on the application's pool. Subscribers of `sql.active_record` see the store's
    # statements.
    #
    # One statement acquires a free key, and one releases it. On PostgreSQL, a release wakes the
    # next waiter by NOTIFY. Each process listens on one more connection while it has waiters, or
    # leases with `renew:` or `on_lost:`. On other databases, waiters poll with pauses that grow
    # from 4 ms to 250 ms. There, a release wakes the next waiter only if both are in one process. A
    # holder notices a break only at its next renewal, after a third of the ttl.
    #
    # With `inside: true`, a caller in a transaction of the given class takes leases as part of the
    # transaction. A commit makes the lease visible to other connections, and a rollback undoes the
    # lease. A release inside the transaction takes effect when the transaction has ended. While the
    # transaction is open, other requests for the key wait, and raise an {UnavailableError} if that
    # takes too long. Inside the transaction, the store refuses calls that other processes must see
    # at once: `wait:`, `renew:`, `on_lost:`, several keys, and shared locks. Outside of a
    # transaction, the option changes nothing.
    #
    # A Ruby thread renews the leases. If other code blocks all Ruby threads for longer than a ttl,
    # the leases end. In that case, choose a longer ttl.
    #
    # @example
    #   require "plock/store/database"
    #   store = Plock::Store::Database.new(ActiveRecord::Base, ttl: 30)
    #   store.acquire("invoice:7") { |lease| send_invoice(7, fence: lease.fence) }
    #
    # @!method close
    #   Closes the connections that are not in use. The next use of the store opens new ones.
    #   @return [nil]
    #
    # @!method lock_acquire(key, owner, ttl)
    #   @see Store#lock_acquire
    #
    # @!method lock_release(key, owner)
    #   @see Store#lock_release
    class Database
      include InRuby
      include ByOwner
      include InTransaction

      # The abilities that this store lacks; see {Locking::ABILITIES}.
      UNABLE = %i[busy_renewal background_release replicas].freeze

      NAME = /\A[^\0]{1,128}\z/.freeze

      # Seconds that a place in the queue lasts if its waiter does not refresh it. PLACE_S is for
      # processes that the server can notify, whose waiters ask less often.
      PLACE_S = 4.0
      PLACE_OF_UNHEARD_S = 0.9

      private_constant :NAME, :PLACE_S, :PLACE_OF_UNHEARD_S

      # @param model [Class] an Active Record class; its database is the store, and its prefix and
      #   suffix for table names apply
      # @param inside [Boolean] are leases part of the caller's transaction, if one is open?
      # @param pool_size [Integer] the largest number of connections. One more connection listens,
      #   and up to two more serve releases and renewals while all are in use. Waiters and holders
      #   occupy none.
      # @param attempt_timeout [Numeric] seconds, 0.001 to 3600, that one attempt may take; the
      #   first attempt of a call may take that long even if its `wait:` is shorter
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
      # @raise [UnsupportedError] a database of another kind, or one in memory
      def initialize(
        model, inside: false, pool_size: 5, attempt_timeout: 1.0, release_timeout: 2.0,
        connect_timeout: 2.0, unavailable_timeout: 1.0, **options
      )
        set_up(config_of(options), attempt_timeout)
        @reach = reach_within(unavailable_timeout)
        unless inside == true || inside == false
          misconfigured("inside must be true or false (got #{inside.inspect})")
        end
        @inside = inside
        @origin = ConnectionSource.new(model)
        @site = Coordinator.new(
          @origin, @scheduler, @reach, pool_size: check_pool_size(pool_size),
          release_timeout: check_seconds("release_timeout", release_timeout),
          connect_timeout: check_seconds("connect_timeout", connect_timeout)
        )
        @pool = @site.connections
      end

      # @return [String] the database's URL, without user and password
      def url = @origin.url

      # @!visibility private
      # The following methods are for {AcquireRequest}, {LeaseState} and {Renewal}.

      # Like {InRuby#tend}, but also watches a lease whose holder must learn of a break at once.
      def tend(lease)
        @site.watch(lease) if lease.attended?
        super
        forget(lease) if lease.ended # another thread may have ended the lease
      end

      def forget(lease)
        @site.unwatch(lease)
        super
      end

      def ask(request, how, deadline)
        lease = request.lease
        return attempt_at_once(lease, request.ttl, deadline) if how == :once

        if how == :look
          left, first, place = @site.ask(:look, lease.key, lease.token, by: deadline)
          # refreshes the place after a third of its time; and also if the place has more time left
          # than a place ever gets, because the clock was set back
          kept = place&.between?(micros(place_span * 2 / 3), micros(PLACE_S * 2))
          if kept && !(first && left <= 0)
            return AcquireRequest::Answer.new(nil, nil, seconds(left), first)
          end
        end
        if lease.share.nil? && tables.respond_to?(:claim) && how != :place
          answer = granted(:claim, lease.key, lease.token, micros(request.ttl), by: deadline)
        end
        answer || stand_in_queue(lease, request.ttl, true, deadline)
      end

      def line_up(request) = Place.new(@site, request)

      # Removes the lease or place at once, so that it does not block the next caller. Repeats this
      # in the background if it failed, or if the server may still carry out the lease's request.
      def take_back(lease, within = @site.release_timeout, doubt: true)
        @site.settle(lease.key, lease.token, Clock.now + within)
        settled = true
      ensure
        Interrupts.complete { take_back_later(lease, settled) if doubt || !settled }
      end

      def take_back_later(lease, settled = false, ttl: lease.ttl)
        @site.aftermath.doubt(lease.key, lease.token, settled, Clock.now + ttl + PLACE_S)
      end

      def prolong(lease, span)
        if lease.transaction && inside_with?(lease)
          return prolong_inside(lease, span, deadline_for(lease))
        end

        @site.ask(
          :prolong, lease.key, lease.token, micros(span), !lease.share.nil?,
          by: deadline_for(lease), reserve: Pool::RENEWAL
        )
      end

      # Renews exclusive leases in one statement. Leases that this statement did not renew,
      # and all shared leases, are renewed one by one.
      def prolong_all(leases, span)
        single, shared = leases.partition { |lease| lease.share.nil? }
        return super if single.size < 2

        renewed = @site.prolong_all(single, span) or return super
        done, others = single.partition { |lease| renewed.include?(lease.token) }
        done.each { |lease| yield lease, true }
        super(others + shared, span)
      end

      def still?(lease)
        !@site.ask(
          :holder_of, lease.key, lease.token, !lease.share.nil?, by: deadline_for(lease),
          reserve: Pool::RENEWAL
        ).nil?
      end

      def release_deadline = @site.release_deadline

      def give_back(lease, keep, deadline = nil)
        deadline ||= release_deadline
        if inside_with?(lease)
          give_back_inside(lease, keep, deadline)
        else
          @site.release(lease, keep, deadline)
        end
      end

      def downgrade(lease)
        deadline = release_deadline
        held, holder, token =
          @site.ask(:downgrade, lease.key, lease.token, by: deadline, reserve: Pool::RELEASE)
        @site.call(holder, token, deadline)
        held == 1
      end

      # @api private
      def examine(key, _shared, budget = nil)
        rows = @site.ask(:examine, key, by: Clock.now + (budget || @site.release_timeout))
        return if rows.empty?

        holders, waiting = rows.partition(&:first)
        holders.map! do |fence, left, *told|
          Status.holder(remaining: seconds(left), fence: fence, **facts(*told))
        end
        [holders, waiting.map { |_fence, _left, *told| Status.waiter(**facts(*told)) }]
      end

      private

      def disconnect = @site.close

      # Inside the caller's transaction, this only reads. If it wrote the row, other processes would
      # have to wait until the transaction ends.
      def keep_note(name, note, replace)
        deadline = release_deadline
        return @origin.inside { |inside| tables.note(inside, name, deadline) } if inside?

        @site.work(deadline) do |connection|
          kept = tables.note(connection, name, deadline)
          next kept if note.empty? || (kept && !replace)

          tables.keep_note(connection, name, note, replace, deadline)
          tables.note(connection, name, deadline)
        end
      rescue Connection::Again # on SQLite: a transaction, perhaps the caller's own, is writing
        raise if replace
      end

      def check_name(key)
        if key.is_a?(String) && NAME.match?(key.dup.force_encoding(Encoding::UTF_8).scrub("\0"))
          return key
        end

        raise ArgumentError, "a key in a database is 1 to 128 characters of UTF-8, without NUL"
      end

      def tables = @site.tables

      def micros(seconds) = @site.micros(seconds)

      def seconds(micros) = micros / Coordinator::MICROSECONDS

      # A request about a lease ends with the lease, because a later answer would be of no use.
      def deadline_for(lease) = [release_deadline, [lease.valid_until, Clock.now].max].min

      def place_span = @site.hearing? ? PLACE_S : PLACE_OF_UNHEARD_S

      def attempt_at_once(lease, ttl, deadline)
        return stand_in_queue(lease, ttl, false, deadline) if lease.share

        answer =
          granted(
            :acquire, lease.key, lease.token, micros(ttl), @site.record(lease.label, lease.token),
            by: deadline
          )
        return answer if answer || @site.ask(:held_for, lease.key, by: deadline).positive?

        stand_in_queue(lease, ttl, false, deadline) # grants the key if all its waiters are gone
      end

      def granted(*request, by:)
        fence, asked_at = timed(*request, by: by)
        AcquireRequest::Answer.new(fence, asked_at) if fence
      end

      # @return [Array(Object, Float)] the answer, and when the database was asked for it
      def timed(what, *arguments, by:)
        @site.work(by) do |connection|
          asked_at = Clock.now
          [tables.public_send(what, connection, *arguments, by), asked_at]
        end
      end

      # @param keep [Boolean] does the request keep its place if it is refused?
      def stand_in_queue(lease, ttl, keep, deadline)
        holder = @site.record(lease.label, lease.token)
        (fence, left, before, next_holder, next_token), asked_at =
          timed(
            :ask, lease.key, lease.token, lease.share, micros(ttl), micros(place_span), holder,
            keep, by: deadline
          )
        unless before
          raise UnavailableError.new(
            "the database has lost the row of a key that it had locked",
            code: :io
          )
        end

        unless fence
          return AcquireRequest::Answer.new(nil, nil, left && seconds(left), before.zero?)
        end

        @site.call(next_holder, next_token, deadline) if lease.share && next_token
        AcquireRequest::Answer.new(fence, asked_at)
      end

      def take_all(keys, ttl, renew, max_hold, label, watch, asking, left, _replicas, &given)
        refuse_inside("taking of several keys": true) if inside?
        leases =
          keys.map do |key|
            lease_for(
              key, label: label, renew: renew, max_hold: max_hold, watch: watch
            ).tap { |one| one.ttl = ttl }
          end
        refused = nil
        undo = nil
        Dispatcher.start
        started = Clock.now
        holds = handing_out(given, -> { leases.each { |lease| give_up(lease, undo) } }) do
          undo = -> (lease) { take_back(lease, AcquireRequest::AT_ONCE_S / leases.size) }
          refused = take_together(leases, ttl, [left, @attempt_timeout - asking].max)
          undo = nil
          leases.map { |lease| hold_of(lease, Clock.now - started, false) } unless refused
        rescue UnavailableError
          undo = method(:take_back_later)
          raise
        end
        holds || refused
      end

      # @return [Integer, nil] the index of a key that is held or has waiters; nil: all keys were
      #   taken
      def take_together(leases, ttl, seconds)
        wanted =
          leases.map { |lease| [lease.key, lease.token, @site.record(lease.label, lease.token)] }
        deadline = Clock.now + [[seconds, AcquireRequest::GRACE_S].max, @attempt_timeout].min
        fences, asked_at = timed(:acquire_all, wanted, micros(ttl), by: deadline)
        refused = leases.index { |lease| !fences.key?(lease.key) }
        leases.each { |lease| lease.given(fences.fetch(lease.key), asked_at, ttl) } unless refused
        refused
      end

      def take_over(lease, token, ttl, _granted)
        deadline = release_deadline
        shared = !lease.share.nil?
        @site.work(deadline) do |connection|
          left = tables.holder_of(connection, lease.key, token, shared, deadline) or next
          lease.label = Record.who(left)[:label]
          holder = @site.record(lease.label, lease.token)
          fence, left = tables.hand_over(connection, lease.key, token, lease.token,
                                         ttl && micros(ttl), holder, shared, deadline)
          [fence, seconds(left)] if fence
        end
      end

      def facts(since, record, mode, _place) =
        { since: seconds(since), mode: mode, **Record.who(record) }

      # The cursor is the last key that was listed.
      def keys_after(prefix, cursor)
        keys = @site.ask(:held, prefix, cursor || "", by: release_deadline)
        [keys, (keys.last if keys.size == Tables::LISTED_AT_ONCE)]
      end

      def break_hold(key, _shared, only)
        fences = only&.filter_map(&:fence)
        return false if fences && fences.empty?

        deadline = release_deadline
        rows = @site.ask(:break, key, fences, by: deadline, reserve: Pool::RELEASE)
        owners, waiting = rows.partition { |_holder, _token, inside| inside == 1 }
        return false if owners.empty?

        begin
          @site.tell_of_loss(owners.map { |owner| owner.first(2) }, deadline)
        ensure # even if the caller has broken its own lease, and that loss is raised here
          Interrupts.defer do
            waiting.each { |holder, token| @site.call(holder, token, deadline) }
          end
        end
        true
      end
    end
  end
end
