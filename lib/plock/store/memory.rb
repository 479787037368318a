# frozen_string_literal: true

require_relative "../locking"
require_relative "memory/hold"
require_relative "memory/backend"

module Plock
  module Testing
    # A store in this process's memory, and what `memory:` opens: among threads and fibers the same
    # in every respect as one that is shared, without a server, and with a clock that tests can
    # move. A forked child has a copy of its own.
    #
    # @example
    #   store = Plock::Store.open("memory:")
    #   lease = store.acquire("k", ttl: 10, wait: 0)
    #   store.advance(9)
    #   lease.valid?    # => true
    #   store.advance(1)
    #   lease.lost?     # => true
    class MemoryStore
      include Locking

      # @param name [String] stores of a name share their locks, as `memory:NAME` does; an empty one
      #   has locks of its own
      # @param profile [Locking::StoreConfig]
      def initialize(name = "", profile = Locking::StoreConfig.new)
        @name = name
        @profile = profile
        @world = MemoryBackend.named(name)
        @closed = false
      end

      # Moves the clock. What is due on the way — renewals, the ends of leases and of others'
      # patience — happens in its order, and has been told when this returns.
      #
      # @param seconds [Numeric] 0 or more
      # @return [nil]
      def advance(seconds)
        @world.advance(Locking::Arguments.span("advance", seconds))
        Dispatcher.flush
        nil
      end

      # Takes the key away from whoever holds it, as if it had been broken by somebody else. The
      # holders have been told when this returns, where they want to be.
      #
      # @param key [String, Symbol, Status]
      # @return [Boolean] did anybody hold it?
      def lose!(key)
        self.break(key).tap { Dispatcher.flush }
      end

      # One attempt to take the lock for `owner`, as {Store#lock_acquire}.
      #
      # @param key [String] in the store
      # @param owner [String]
      # @param ttl [Numeric] seconds
      # @return [Boolean] false where somebody holds it
      def lock_acquire(key, owner, ttl)
        claim = Claim.new(key, Owner.new(nil), Locking::Arguments.ttl(ttl), token: owner)
        @world.with(key) { |lock, now| lock.ask(claim, now, 0.0) }
        !claim.grant.nil?
      end

      # Releases the lock if, and only if, `owner` holds it, as {Store#lock_release}.
      #
      # @param key [String] in the store
      # @param owner [String]
      # @return [Boolean] was it held by `owner`?
      def lock_release(key, owner)
        @world.with(key) do |lock, now|
          grant = lock.held_by(owner)
          next false if grant.nil? || grant.ended

          lock.release(grant, now)
          true
        end
      end

      # @return [String]
      def url
        "memory:#{@name}"
      end

      # @return [nil]
      def close
        @closed = true
        nil
      end

      # @api private
      def release_all(holds, keep, _budget)
        Thread.handle_interrupt(Object => :never) { holds.map { |hold| hold.release(keep) } }
      end

      # @api private
      def adopt_hold(dump, renew, max_hold, watch, ttl = nil, heir = nil)
        key, token = MemoryHold.read(dump)
        next_token = heir ? MemoryHold.read(heir).last : Plock.token
        Dispatcher.start
        @world.with(key) do |lock, now|
          given = lock.held_by(token)
          next if given.nil? || given.ended == :released

          given.ended = :given
          grant =
            LeaseState.new(
              Owner.new(given.owner.label), next_token, @world.next_fence(now), ttl || given.ttl,
              now, share: given.share, renew: renew, max_hold: max_hold, watch: watch,
              expires_at: ttl ? now + ttl : given.expires_at
            )
          lock.replace(given, grant)
          MemoryHold.new(@world, key, grant, 0.0, false).tap { |hold| yield hold if block_given? }
        end
      end

      # @api private
      # Nothing here takes so long that a budget would matter.
      def examine(key, _shared, _budget = nil)
        @world.with(key) do |lock, now|
          next if lock.idle?

          holders = lock.holders.map do |grant|
            Status.holder(remaining: grant.expires_at - now, fence: grant.fence,
                          **facts(grant, grant.acquired_at))
          end
          [holders, lock.waiters.map { |claim| Status.waiter(**facts(claim, claim.since)) }]
        end
      end

      private

      # Others' patience is measured by the clock that tests can move, and so is this.
      def now
        @world.now
      end

      def take(key, ttl, wait, renew, max_hold, label, watch, share, _asking, &given)
        claim =
          Claim.new(
            key, Owner.new(label), ttl, share: share, renew: renew, max_hold: max_hold, watch: watch
          )
        started = Clock.now
        Dispatcher.start # whose hold is collected must find it there
        handing_out(given, -> { give_back(claim) }) do
          @world.with(key) { |lock, now| lock.ask(claim, now, wait) }
          claim.await
          if claim.grant
            MemoryHold.new(@world, key, claim.grant, Clock.now - started, claim.contended?)
          end
        end
      end

      def take_all(keys, ttl, renew, max_hold, label, watch, _asking, _left, &given)
        owner = Owner.new(label)
        claims =
          keys.map do |key|
            Claim.new(key, owner, ttl, renew: renew, max_hold: max_hold, watch: watch)
          end
        refused = nil
        started = Clock.now
        Dispatcher.start
        holds = handing_out(given, -> { claims.each { |claim| give_back(claim) } }) do
          refused = @world.with_all(keys) do |locks, now|
            locks.index { |lock| !lock.idle? } ||
              locks.zip(claims) { |lock, claim| lock.ask(claim, now, 0.0) }
          end
          unless refused
            claims.map do |claim|
              MemoryHold.new(@world, claim.key, claim.grant, Clock.now - started, false)
            end
          end
        end
        holds || refused
      end

      # Whoever leaves while waiting, or with what nobody has seen yet, must not keep the turn.
      def give_back(claim)
        @world.with(claim.key) do |lock, now|
          claim.grant ? lock.release(claim.grant, now) : lock.leave(claim, now)
        end
      end

      # What {Status} tells of a holder and of a waiter alike.
      def facts(claim, since)
        owner = claim.owner
        { host: owner.host, pid: owner.pid, thread: owner.thread, label: owner.label,
          since: @world.since_epoch(since), mode: claim.share&.mode }
      end

      def each_key(prefix, &block)
        @world.held_keys.each { |key| block.call(key) if key.start_with?(prefix) }
      end

      def keep_note(name, note, replace)
        @world.keep_note(name, note, replace)
      end

      def break_hold(key, _shared)
        @world.with(key) { |lock, now| lock.holders.any?.tap { lock.break(now) } }
      end
    end
  end
end
