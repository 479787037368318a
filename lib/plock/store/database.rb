# frozen_string_literal: true

require "plock"
require "active_record"
require_relative "in_ruby"
require_relative "by_owner"
require_relative "reach"
require_relative "database/origin"
require_relative "database/site"
require_relative "database/inside"
require_relative "database/place"

module Plock
  class Store
    # Locks in a database that the application has anyway: PostgreSQL, MySQL, MariaDB or SQLite, through Active Record. Leases, fences,
    # strict order among those who wait, status and everything else are as on Redis; times are the database's.
    #
    # It needs two tables, which `rails generate plock:database` makes a migration for, and `require "plock/store/database"`.
    #
    # It has connections of its own, made as those of the class that it is given: a lease has to be seen by others at once, so nothing
    # of it is ever part of a transaction of yours, and no pool of yours can be empty when a lock is to be released. What it sends is
    # told to subscribers of `sql.active_record`.
    #
    # A key that is free is taken in one statement, and released in another. On PostgreSQL who waits is called by NOTIFY, which one
    # more connection in each process listens to, as long as somebody waits or has a lease with `renew:` or `on_lost:`. Elsewhere who
    # waits looks again, after 4 ms at first and then less and less often, down to four times a second; only those in the process of
    # the one who releases are called. There a lease learns that it was broken at its next renewal, after a third of its ttl.
    #
    # With `inside: true`, whoever is in a transaction of that class's has his leases in it: taken when it is committed, released when it
    # is committed, and neither where it is rolled back. As long as it is open, others who ask for such a key wait for its end, and get
    # an {UnavailableError} where that takes too long. What needs others to see it at once is refused there: patience, `renew:`,
    # `on_lost:`, several keys, and what is shared. Outside of a transaction nothing changes.
    #
    # Leases are renewed by a thread of Ruby: where other code lets no thread run for longer than a ttl, they end. Give them a ttl that
    # is longer than that.
    #
    # @example
    #   require "plock/store/database"
    #   store = Plock::Store::Database.new(ActiveRecord::Base, ttl: 30)
    #   store.acquire("invoice:7") { |lease| send_invoice(7, fence: lease.fence) }
    class Database
      include InRuby
      include ByOwner

      UNABLE = %i[busy_renewal].freeze

      POOL_SIZES = (1..1024).freeze
      NAME = /\A[^\0]{1,128}\z/.freeze
      DUMPED = "database"

      # Seconds that a place in the queue lasts without a sign of life: of a process that the server can call, and of others.
      PLACE_S = 4.0
      PLACE_OF_UNHEARD_S = 0.9

      private_constant :POOL_SIZES, :NAME, :DUMPED, :PLACE_S, :PLACE_OF_UNHEARD_S

      # @param model [Class] an Active Record class; its database is the store, and the prefix of its tables' names counts
      # @param inside [Boolean] are leases to be part of a transaction of the caller's, where one is open?
      # @param pool_size [Integer] connections at most, besides the one that listens and up to two that releases and renewals have for
      #   themselves while all are in use; none is in use while somebody waits or holds
      # @param attempt_timeout [Numeric] seconds, 0.001 to 3600, that the first attempt of a call always has, however short its patience
      # @param release_timeout [Numeric] seconds, 0.001 to 3600, that a release, or any other single call, may take
      # @param connect_timeout [Numeric] seconds, 0.001 to 3600, for one connection
      # @param unavailable_timeout [Numeric] seconds, 0.001 to 3600, after which an acquire gives up that cannot reach
      #   the database at all, however long its patience
      # @param options [Hash{Symbol => Object}] `:secret`, `:namespace`, `:ttl`, `:wait` and `:logger` as for {Store.open}
      # @raise [ArgumentError] an option of another name
      # @raise [ConfigurationError] a value that cannot be right
      # @raise [UnsupportedError] another database, or one in memory
      def initialize(model, inside: false, pool_size: 5, attempt_timeout: 1.0, release_timeout: 2.0, connect_timeout: 2.0,
                     unavailable_timeout: 1.0, **options)
        @profile = Locking::Profile.extract(options)
        raise ArgumentError, "unknown keyword: #{options.keys.first.inspect}" if options.any?
        unless model.is_a?(Class) && model <= ActiveRecord::Base
          raise ArgumentError, "a store in a database needs an Active Record class (got #{model.inspect})"
        end

        misconfigured("inside must be true or false (got #{inside.inspect})") unless inside == true || inside == false
        @inside = inside
        @origin = Origin.new(model)
        @scheduler = scheduler
        @reach = Reach.new(check_seconds("unavailable_timeout", unavailable_timeout))
        @attempt_timeout = check_seconds("attempt_timeout", attempt_timeout)
        @site = Site.new(@origin, @scheduler, @reach, pool_size: check_size("pool_size", pool_size, POOL_SIZES),
                                                      release_timeout: check_seconds("release_timeout", release_timeout),
                                                      connect_timeout: check_seconds("connect_timeout", connect_timeout))
        @closed = false
        Events::ActiveSupportBridge.attach
      end

      # @return [String] without user and password
      def url
        @origin.url
      end

      # @api private
      attr_reader :attempt_timeout

      # @api private
      def tend(grant)
        @site.watch(grant) if grant.attended?
        super
        forget(grant) if grant.ended # meanwhile
      end

      # @api private
      def forget(grant)
        @site.unwatch(grant)
        super
      end

      # @api private
      # @return [AcquireRequest::Answer, nil]
      def ask(request, how, deadline)
        grant = request.grant
        return attempt_at_once(grant, request.ttl, deadline) if how == :once

        single = grant.share.nil?
        if how == :look
          left, first, place = look(grant, deadline)
          kept = place&.between?(place_span * 2 / 3, PLACE_S * 2) # longer: the clock was set back
          return AcquireRequest::Answer.new(nil, nil, left, first) if kept && !(first && left <= 0)
        end
        answer = claim(grant, request.ttl, deadline) if single && tables.respond_to?(:claim) && how != :place
        answer || stand_in_queue(grant, request.ttl, true, deadline)
      end

      # @api private
      # @return [Place]
      def line_up(request) = Place.new(@site, request)

      # @api private
      # At once, so that the next caller finds nothing of it; and once more, if a request may be carried out late.
      #
      # @return [void]
      def take_back(grant, within = @site.release_timeout, doubt: true)
        @site.settle(grant.key, grant.token, Clock.now + within)
        settled = true
      ensure
        Thread.handle_interrupt(Object => :never) { take_back_later(grant) if doubt || !settled }
      end

      # @api private
      # @return [void]
      def take_back_later(grant)
        @site.settle_later(grant.key, grant.token, Clock.now + grant.ttl + PLACE_S)
      end

      # @api private
      # @return [Boolean] is it ours, and so for another span?
      def prolong(grant, span)
        deadline = deadline_for(grant)
        @site.work(deadline, Site::RENEWAL) do |connection|
          tables.prolong(connection, grant.key, grant.token, micros(span), !grant.share.nil?, deadline)
        end
      end

      # @api private
      # In one statement. Of those that it does not reach, each is asked about by itself.
      def prolong_all(grants, span)
        single, shared = grants.partition { |grant| grant.share.nil? }
        return super if single.size < 2

        deadline = Clock.now + [@site.release_timeout, span / Grant::RENEWALS_PER_TTL].min
        names = single.to_h { |grant| [grant.token, grant.key] }
        renewed = @site.work(deadline, Site::RENEWAL) { |connection| tables.prolong_all(connection, names, micros(span), deadline) }
        known = renewed.to_h { |token| [token, true] }
        done, others = single.partition { |grant| known[grant.token] }
        done.to_h { |grant| [grant, true] }.merge(super(others + shared, span))
      rescue UnavailableError
        super
      end

      # @api private
      # @return [Boolean]
      def still?(grant)
        deadline = deadline_for(grant)
        !@site.work(deadline, Site::RENEWAL) { |connection| tables.left(connection, grant.key, grant.token, !grant.share.nil?, deadline) }.nil?
      end

      # @api private
      # @return [Boolean] was it ours?
      def give_back(grant, keep, deadline = nil)
        deadline ||= soon
        inside? && grant.share.nil? ? give_back_inside(grant, keep, deadline) : @site.release(grant, keep, deadline)
      end

      # @api private
      # @return [Boolean] was it ours?
      def downgrade(grant)
        deadline = soon
        held, holder, token = @site.work(deadline, Site::RELEASE) do |connection|
          tables.downgrade(connection, grant.key, grant.token, deadline)
        end
        @site.call(holder, token, deadline)
        held == 1
      end

      private

      def disconnect = @site.close

      # Inside a transaction of the caller's it only looks: others would wait for the row until that transaction ends.
      def keep_note(name, note, replace)
        deadline = soon
        return @origin.inside { |inside| tables.note(inside, name, deadline) } if inside?

        @site.work(deadline) do |connection|
          kept = tables.note(connection, name, deadline)
          next kept if note.empty? || (kept && !replace)

          tables.keep_note(connection, name, note, replace, deadline)
          tables.note(connection, name, deadline)
        end
      rescue Connection::Again # SQLite, where somebody writes all the time: perhaps the caller, in a transaction of his own
        raise if replace
      end

      # @raise [ArgumentError]
      def check_name(key)
        return key if key.is_a?(String) && NAME.match?(key.dup.force_encoding(Encoding::UTF_8).scrub("\0"))

        raise ArgumentError, "a key in a database is 1 to 128 characters of UTF-8, without NUL"
      end

      def inside? = @inside && @origin.in_transaction?

      # One attempt, of which nothing is to be seen before the caller's transaction is committed.
      def take(key, ttl, wait, renew, max_hold, label, watch, share, _asking, &given)
        return super unless inside?

        asks_to_watch = renew == true || (watch && !renew)
        refuse_inside(wait: wait.positive?, "renew: or on_lost:": asks_to_watch, "a lock that is shared": share)
        grant = grant_for(key, label: label)
        fence = nil
        Dispatcher.start
        asked_at = Clock.now
        handing_out(given, -> { leave_inside(grant) if fence }) do
          @origin.inside { |inside| fence = tables.acquire(inside, key, grant.token, micros(ttl), @site.record(label, grant.token), soon) }
          if fence
            grant.given(fence, asked_at, ttl)
            @origin.when_rolled_back { grant.lose }
            hold_of(grant, 0.0, false)
          end
        end
      end

      # Where it cannot be given back, it cannot be committed either.
      def leave_inside(grant)
        give_back_inside(grant, 0.0, soon) if inside?
      rescue UnavailableError
        nil
      end

      def refuse_inside(refused)
        what, = refused.find { |_, wanted| wanted }
        unsupported("inside a transaction there is no #{what}: others see nothing of it before the transaction ends") if what
      end

      # Nobody is called before the transaction is committed: not by this process itself either.
      def give_back_inside(grant, keep, deadline)
        ours = @origin.inside do |inside|
          waiting = tables.release(inside, grant.key, grant.token, micros(keep), deadline)
          next if waiting.nil?

          tables.call_first(inside, grant.key, "", deadline) if waiting && keep.zero? && tables.respond_to?(:call_first)
          true
        end
        !ours.nil?
      end

      def tables = @site.tables

      def micros(seconds) = @site.micros(seconds)

      def soon = Clock.now + @site.release_timeout

      # Nobody has use for an answer that comes when the lease is over.
      def deadline_for(grant)
        [soon, [grant.valid_until, Clock.now].max].min
      end

      def kind = DUMPED

      # Seconds that a place lasts without a sign of life: longer if the server knows which process waits.
      def place_span = @site.hearing? ? PLACE_S : PLACE_OF_UNHEARD_S

      # @return [AcquireRequest::Answer, nil]
      def attempt_at_once(grant, ttl, deadline)
        return stand_in_queue(grant, ttl, false, deadline) if grant.share

        holder = @site.record(grant.label, grant.token)
        answer = granted(deadline) { |connection| tables.acquire(connection, grant.key, grant.token, micros(ttl), holder, deadline) }
        return answer if answer
        return if @site.work(deadline) { |connection| tables.held_for(connection, grant.key, deadline) }.positive?

        stand_in_queue(grant, ttl, false, deadline) # those who seem to wait may all be gone
      end

      # One statement, when the database has one for it.
      def claim(grant, ttl, deadline)
        granted(deadline) { |connection| tables.claim(connection, grant.key, grant.token, micros(ttl), deadline) }
      end

      def granted(deadline)
        asked_at = nil
        fence = @site.work(deadline) do |connection|
          asked_at = Clock.now
          yield connection
        end
        AcquireRequest::Answer.new(fence, asked_at) if fence
      end

      # @param keep [Boolean] is it to keep its place if it is refused?
      def stand_in_queue(grant, ttl, keep, deadline)
        holder = @site.record(grant.label, grant.token)
        asked_at = nil
        fence, left, before, next_holder, next_token = @site.work(deadline) do |connection|
          asked_at = Clock.now
          tables.ask(connection, grant.key, grant.token, grant.share, micros(ttl), micros(place_span), holder, keep, deadline)
        end
        raise UnavailableError.new("the database has lost the row of a key that it had locked", code: :io) unless before

        return AcquireRequest::Answer.new(nil, nil, left && (left / Site::MICROSECONDS), before.zero?) unless fence

        @site.call(next_holder, next_token, deadline) if grant.share && next_token
        AcquireRequest::Answer.new(fence, asked_at)
      end

      # @return [Array(Float, Boolean, Float), nil] how long the key is still held, is nobody before it, how long its place lasts
      def look(grant, deadline)
        left, first, place = @site.work(deadline) { |connection| tables.look(connection, grant.key, grant.token, deadline) }
        place && [left / Site::MICROSECONDS, first, place / Site::MICROSECONDS]
      end

      def take_all(keys, ttl, renew, max_hold, label, watch, _asking, _left, &given)
        refuse_inside("taking of several keys": true) if inside?
        grants = keys.map { |key| grant_for(key, label: label, renew: renew, max_hold: max_hold, watch: watch).tap { |one| one.wants(ttl) } }
        refused = nil
        undo = nil
        Dispatcher.start
        started = Clock.now
        holds = handing_out(given, -> { leave_all(grants, undo) }) do
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

      # @return [Integer, nil] nil: they are given; else of one that is held or waited for
      def take_together(grants, ttl)
        deadline = Clock.now + @attempt_timeout
        wanted = grants.map { |grant| [grant.key, grant.token, @site.record(grant.label, grant.token)] }
        asked_at = nil
        fences = @site.work(deadline) do |connection|
          asked_at = Clock.now
          tables.acquire_all(connection, wanted, micros(ttl), deadline)
        end
        refused = grants.index { |grant| !fences.key?(grant.key) }
        grants.each { |grant| grant.given(fences.fetch(grant.key), asked_at, ttl) } unless refused
        refused
      end

      # One that cannot be released keeps none of the others from it.
      #
      # @param undo [#call, nil] takes back one that may have been granted
      def leave_all(grants, undo)
        grants.each do |grant|
          if grant.fence && grant.ended.nil? then grant.release(0.0)
          else undo&.call(grant)
          end
        rescue *Locking::Taking::STORE_FAILURES
          nil # it is tried again in the background
        end
      end

      def adopt_hold(dump, renew, max_hold, watch, ttl = nil, heir = nil, &given)
        key, token, fence, granted, share = GrantHold.read(dump, kind)
        raise ArgumentError, "not the dump of a lease" unless fence

        grant = Grant.new(self, key, token_of(heir), share: share, renew: renew, max_hold: max_hold, watch: watch)
        grant.wants(ttl || granted)
        adopting(grant, given, lasting: !heir.nil?) do
          asked_at = Clock.now
          fence, left = adopt_row(grant, token, ttl)
          [fence, asked_at, ttl || granted, left / Site::MICROSECONDS] if fence
        end
      end

      # @param token [String] of the owner that left it, and what is noted of which does not change
      # @return [Array(Integer, Integer), nil] fence and microseconds that are left; nil: it is not held any more
      def adopt_row(grant, token, ttl)
        deadline = soon
        shared = !grant.share.nil?
        @site.work(deadline) do |connection|
          left = tables.holder_of(connection, token, grant.key, shared, deadline) or next
          grant.relabel(who(left).last)
          tables.hand_over(connection, grant.key, token, grant.token, ttl && micros(ttl), @site.record(grant.label, grant.token), shared,
                           deadline)
        end
      end

      def examine(key, _shared, budget = nil)
        deadline = Clock.now + (budget || @site.release_timeout)
        head, acquired_at, claims = @site.work(deadline) { |connection| tables.examine(connection, key, deadline) }
        return unless head

        waiting, inside = claims.select { |claim| claim.expires_at > head.now }.partition { |claim| claim.fence.nil? }
        holders = inside.map { |claim| holder(claim, head.now) }
        holders << single_holder(head, acquired_at) if head.expires_at > head.now
        return if holders.empty? && waiting.empty?

        [holders, waiting.map { |claim| [*who(claim.holder), since(claim.acquired_at), claim.mode] }]
      end

      def holder(claim, now)
        [(claim.expires_at - now) / Site::MICROSECONDS, claim.fence, since(claim.acquired_at), *who(claim.holder), claim.mode]
      end

      def single_holder(head, acquired_at)
        [(head.expires_at - head.now) / Site::MICROSECONDS, head.fence, since(acquired_at), *who(head.holder), nil]
      end

      def who(record)
        (record && Record.parse(record)&.first(4)) || [nil] * 4
      end

      def since(moment) = moment / Site::MICROSECONDS

      def each_key(prefix, &block)
        last = ""
        loop do
          deadline = soon
          keys = @site.work(deadline) { |connection| tables.held(connection, prefix, last, deadline) }
          keys.each(&block)
          break if keys.size < Tables::LISTED_AT_ONCE

          last = keys.last
        end
      end

      def break_hold(key, _shared)
        deadline = soon
        rows = @site.work(deadline, Site::RELEASE) { |connection| tables.break(connection, key, deadline) }
        owners, waiting = rows.partition { |_holder, _token, inside| inside == 1 }
        return false if owners.empty?

        mask = Locking::Taking.mask
        begin
          @site.tell_of_loss(owners.map { |owner| owner.first(2) }, deadline)
        ensure # also when the caller breaks its own lease, and has heard of it
          Thread.handle_interrupt(mask) { waiting.each { |holder, token| @site.call(holder, token, deadline) } }
        end
        true
      end
    end
  end
end
