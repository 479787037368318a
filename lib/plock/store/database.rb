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
    # Record. Leases, fences, strict order of waiters, status and everything else are as on Redis.
    # Times are on the database's clock.
    #
    # It needs two tables, for which `rails generate plock:database` makes a migration, and
    # `require "plock/store/database"`.
    #
    # It opens its own connections, with the settings of the given class. Other processes must see a
    # lease at once, so it is not part of the caller's transaction, and a release does not depend on
    # the application's pool. Subscribers of `sql.active_record` see its statements.
    #
    # One statement takes a free key, and another one releases it. On PostgreSQL, NOTIFY calls the
    # waiters. One more connection in each process listens to it while the process has waiters, or
    # leases with `renew:` or `on_lost:`. On other databases, waiters poll with pauses that grow
    # from 4 ms to 250 ms, and a release calls only the waiters of its own process. There a holder
    # notices a break at its next renewal, after a third of the ttl.
    #
    # With `inside: true`, the leases of a caller in a transaction of that class are part of the
    # transaction. They are taken when it is committed, not if it is rolled back, and released when
    # it has ended. While it is open, other requests for such a key wait for its end, and raise an
    # {UnavailableError} if that takes too long. Inside it, calls that other processes must see at
    # once are refused: `wait:`, `renew:`, `on_lost:`, several keys, and shared locks. Outside of a
    # transaction nothing changes.
    #
    # A thread of Ruby renews the leases: if other code lets no thread run for longer than a ttl,
    # they end. Choose a longer ttl then.
    #
    # @example
    #   require "plock/store/database"
    #   store = Plock::Store::Database.new(ActiveRecord::Base, ttl: 30)
    #   store.acquire("invoice:7") { |lease| send_invoice(7, fence: lease.fence) }
    #
    # @!method close
    #   Closes the connections that are not in use. A store that is used after that opens them
    #   again.
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
      UNABLE = %i[busy_renewal].freeze

      NAME = /\A[^\0]{1,128}\z/.freeze

      # Seconds that a place in the queue lasts if its waiter does not refresh it. PLACE_S is for
      # processes that the server can call.
      PLACE_S = 4.0
      PLACE_OF_UNHEARD_S = 0.9

      private_constant :NAME, :PLACE_S, :PLACE_OF_UNHEARD_S

      # @param model [Class] an Active Record class; its database is the store, and the prefix of
      #   its tables' names counts
      # @param inside [Boolean] are leases part of the caller's transaction, if one is open?
      # @param pool_size [Integer] connections at most, in addition to the one that listens and to
      #   two for releases and renewals while all are in use; waiters and holders occupy none
      # @param attempt_timeout [Numeric] seconds, 0.001 to 3600, that one attempt may take; the
      #   first attempt of a call may take that long even if its `wait:` is shorter
      # @param release_timeout [Numeric] seconds, 0.001 to 3600, that a release, or any other single
      #   call, may take
      # @param connect_timeout [Numeric] seconds, 0.001 to 3600, for one connection
      # @param unavailable_timeout [Numeric] seconds, 0.001 to 3600, after which an acquire that
      #   cannot reach the database gives up, even if its `wait:` is longer
      # @param options [Hash{Symbol => Object}] `:secret`, `:namespace`, `:ttl`, `:wait` and
      #   `:logger` as for {Store.open}
      # @raise [ArgumentError] an option of another name
      # @raise [ConfigurationError] a value that cannot be right
      # @raise [UnsupportedError] another database, or one in memory
      def initialize(
        model, inside: false, pool_size: 5, attempt_timeout: 1.0, release_timeout: 2.0,
        connect_timeout: 2.0, unavailable_timeout: 1.0, **options
      )
        set_up(profile_of(options), attempt_timeout)
        @reach = reach_within(unavailable_timeout)
        unless inside == true || inside == false
          misconfigured("inside must be true or false (got #{inside.inspect})")
        end
        @inside = inside
        @origin = ConnectionSource.new(model)
        pool_size = check_size("pool_size", pool_size, Pool::SIZES)
        @site = Coordinator.new(
          @origin, @scheduler, @reach, pool_size: pool_size,
          release_timeout: check_seconds("release_timeout", release_timeout),
          connect_timeout: check_seconds("connect_timeout", connect_timeout)
        )
      end

      # @return [String] the database's URL, without user and password
      def url = @origin.url

      # @!visibility private
      # The rest is for {AcquireRequest}, {LeaseState} and {Renewal}.

      # Watches the lease, too, if its holder must learn of a break at once.
      def tend(grant)
        @site.watch(grant) if grant.attended?
        super
        forget(grant) if grant.ended # another thread may have ended it
      end

      def forget(grant)
        @site.unwatch(grant)
        super
      end

      def ask(request, how, deadline)
        grant = request.grant
        return attempt_at_once(grant, request.ttl, deadline) if how == :once

        single = grant.share.nil?
        if how == :look
          left, first, place = @site.ask(:look, grant.key, grant.token, by: deadline)
          # a place that lasts longer is from before the clock was set back
          kept = place&.between?(micros(place_span * 2 / 3), micros(PLACE_S * 2))
          if kept && !(first && left <= 0)
            return AcquireRequest::Answer.new(nil, nil, seconds(left), first)
          end
        end
        if single && tables.respond_to?(:claim) && how != :place
          answer = granted(:claim, grant.key, grant.token, micros(request.ttl), by: deadline)
        end
        answer || stand_in_queue(grant, request.ttl, true, deadline)
      end

      def line_up(request) = Place.new(@site, request)

      # Takes the lease or place back at once, so that the next caller does not find it, and again
      # later if the server may still carry out a request.
      def take_back(grant, within = @site.release_timeout, doubt: true)
        @site.settle(grant.key, grant.token, Clock.now + within)
        settled = true
      ensure
        Thread.handle_interrupt(Object => :never) { take_back_later(grant) if doubt || !settled }
      end

      def take_back_later(grant)
        @site.settle_later(grant.key, grant.token, Clock.now + grant.ttl + PLACE_S)
      end

      def prolong(grant, span)
        if grant.transaction && inside_with?(grant)
          return prolong_inside(grant, span, deadline_for(grant))
        end

        @site.ask(
          :prolong, grant.key, grant.token, micros(span), !grant.share.nil?,
          by: deadline_for(grant), reserve: Pool::RENEWAL
        )
      end

      # In one statement. Leases that it did not renew are renewed one by one.
      def prolong_all(grants, span)
        single, shared = grants.partition { |grant| grant.share.nil? }
        return super if single.size < 2

        deadline = Clock.now + [@site.release_timeout, span / LeaseState::RENEWALS_PER_TTL].min
        names = single.to_h { |grant| [grant.token, grant.key] }
        tokens = @site.ask(:prolong_all, names, micros(span), by: deadline, reserve: Pool::RENEWAL)
        known = tokens.to_h { |token| [token, true] }
        done, others = single.partition { |grant| known[grant.token] }
        done.to_h { |grant| [grant, true] }.merge(super(others + shared, span))
      rescue UnavailableError
        super
      end

      def still?(grant)
        !@site.ask(
          :left, grant.key, grant.token, !grant.share.nil?, by: deadline_for(grant),
          reserve: Pool::RENEWAL
        ).nil?
      end

      def give_back(grant, keep, deadline = nil)
        deadline ||= soon
        if inside_with?(grant)
          give_back_inside(grant, keep, deadline)
        else
          @site.release(grant, keep, deadline)
        end
      end

      def downgrade(grant)
        deadline = soon
        held, holder, token =
          @site.ask(:downgrade, grant.key, grant.token, by: deadline, reserve: Pool::RELEASE)
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

      # Inside a transaction of the caller, this only reads: if it wrote the row, others would wait
      # for that transaction's end.
      def keep_note(name, note, replace)
        deadline = soon
        return @origin.inside { |inside| tables.note(inside, name, deadline) } if inside?

        @site.work(deadline) do |connection|
          kept = tables.note(connection, name, deadline)
          next kept if note.empty? || (kept && !replace)

          tables.keep_note(connection, name, note, replace, deadline)
          tables.note(connection, name, deadline)
        end
      rescue Connection::Again # on SQLite another transaction writes, perhaps the caller's own
        raise if replace
      end

      # @raise [ArgumentError]
      def check_name(key)
        if key.is_a?(String) && NAME.match?(key.dup.force_encoding(Encoding::UTF_8).scrub("\0"))
          return key
        end

        raise ArgumentError, "a key in a database is 1 to 128 characters of UTF-8, without NUL"
      end

      def tables = @site.tables

      def micros(seconds) = @site.micros(seconds)

      def seconds(micros) = micros / Coordinator::MICROSECONDS

      def soon = Clock.now + @site.release_timeout

      # An answer after the end of the lease is of no use.
      def deadline_for(grant)
        [soon, [grant.valid_until, Clock.now].max].min
      end

      # Seconds that a place lasts if its waiter does not refresh it: longer if this process can be
      # called.
      def place_span = @site.hearing? ? PLACE_S : PLACE_OF_UNHEARD_S

      def attempt_at_once(grant, ttl, deadline)
        return stand_in_queue(grant, ttl, false, deadline) if grant.share

        answer =
          granted(
            :acquire, grant.key, grant.token, micros(ttl), @site.record(grant.label, grant.token),
            by: deadline
          )
        return answer if answer || @site.ask(:held_for, grant.key, by: deadline).positive?

        stand_in_queue(grant, ttl, false, deadline) # all that seem to wait may be gone
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
      def stand_in_queue(grant, ttl, keep, deadline)
        holder = @site.record(grant.label, grant.token)
        (fence, left, before, next_holder, next_token), asked_at =
          timed(
            :ask, grant.key, grant.token, grant.share, micros(ttl), micros(place_span), holder,
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

        @site.call(next_holder, next_token, deadline) if grant.share && next_token
        AcquireRequest::Answer.new(fence, asked_at)
      end

      def take_all(keys, ttl, renew, max_hold, label, watch, _asking, _left, &given)
        refuse_inside("taking of several keys": true) if inside?
        grants =
          keys.map do |key|
            grant_for(
              key, label: label, renew: renew, max_hold: max_hold, watch: watch
            ).tap { |one| one.ttl = ttl }
          end
        refused = nil
        undo = nil
        Dispatcher.start
        started = Clock.now
        holds = handing_out(given, -> { grants.each { |grant| give_up(grant, undo) } }) do
          undo = -> (grant) { take_back(grant, AcquireRequest::AT_ONCE_S / grants.size) }
          refused = take_together(grants, ttl)
          undo = nil
          grants.map { |grant| hold_of(grant, Clock.now - started, false) } unless refused
        rescue UnavailableError
          undo = method(:take_back_later)
          raise
        end
        holds || refused
      end

      # @return [Integer, nil] nil: all were taken; else the index of a key that is held or awaited
      def take_together(grants, ttl)
        wanted =
          grants.map { |grant| [grant.key, grant.token, @site.record(grant.label, grant.token)] }
        deadline = Clock.now + @attempt_timeout
        fences, asked_at = timed(:acquire_all, wanted, micros(ttl), by: deadline)
        refused = grants.index { |grant| !fences.key?(grant.key) }
        grants.each { |grant| grant.given(fences.fetch(grant.key), asked_at, ttl) } unless refused
        refused
      end

      def take_over(grant, token, ttl, _granted)
        deadline = soon
        shared = !grant.share.nil?
        @site.work(deadline) do |connection|
          left = tables.holder_of(connection, token, grant.key, shared, deadline) or next
          grant.relabel(Record.who(left)[:label])
          holder = @site.record(grant.label, grant.token)
          fence, left = tables.hand_over(connection, grant.key, token, grant.token,
                                         ttl && micros(ttl), holder, shared, deadline)
          [fence, seconds(left)] if fence
        end
      end

      def facts(since, record, mode, _place)
        { since: seconds(since), mode: mode, **Record.who(record) }
      end

      def each_key(prefix, &block)
        last = ""
        loop do
          keys = @site.ask(:held, prefix, last, by: soon)
          keys.each(&block)
          break if keys.size < Tables::LISTED_AT_ONCE

          last = keys.last
        end
      end

      def break_hold(key, _shared)
        deadline = soon
        rows = @site.ask(:break, key, by: deadline, reserve: Pool::RELEASE)
        owners, waiting = rows.partition { |_holder, _token, inside| inside == 1 }
        return false if owners.empty?

        mask = Locking::Acquisition.mask
        begin
          @site.tell_of_loss(owners.map { |owner| owner.first(2) }, deadline)
        ensure # even if the caller has broken its own lease, and learned of it
          Thread.handle_interrupt(mask) do
            waiting.each { |holder, token| @site.call(holder, token, deadline) }
          end
        end
        true
      end
    end
  end
end
