# frozen_string_literal: true

require_relative "../locking"
require_relative "memory/backend"
require_relative "support/hold"

module Plock
  module Testing
    # A store in the memory of this process, which `memory:` opens. It behaves toward threads and
    # fibers like a store on a server, and tests can move its clock. A forked child has its own
    # copy.
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

      KIND = "memory"
      LONG_S = 31_622_400.0
      private_constant :KIND, :LONG_S

      # The key that {MemoryStore#take!} took.
      class Taken
        # @api private
        def initialize(lease)
          @lease = lease
        end

        # @return [Boolean] was the key still taken?
        # @raise [UnavailableError] after {MemoryStore#down!}
        def release = @lease.release(0.0) == true
      end

      # @param name [String] stores of the same name share their locks, as with `memory:NAME`; a
      #   store with an empty name has its own locks
      # @param config [Locking::StoreConfig]
      def initialize(name = "", config = Locking::StoreConfig.new)
        @name = name
        @config = config
        @backend = MemoryBackend.named(name)
        @closed = false
      end

      # Moves the clock forward. Renewals, expiries and the timeouts of waiters happen in the order
      # in which they become due. When this returns, all notices have been delivered.
      #
      # @param seconds [Numeric] 0 or more
      # @return [nil]
      def advance(seconds)
        @backend.advance(Locking::Arguments.span("advance", seconds))
        Dispatcher.flush
        nil
      end

      # Takes the key away from its holders, as if another process had broken the lock. When this
      # returns, `on_lost:` of these holders has been called.
      #
      # @param key [String, Symbol, Status] as {Locking#break} takes it
      # @return [Boolean] as {Locking#break} returns it
      def lose!(key)
        self.break(key).tap { Dispatcher.flush }
      end

      # Takes the key, as if another process had done so. This causes no events.
      #
      # @param key [String, Symbol]
      # @param label [String] the other holder's label
      # @return [Taken] an object that can release the key
      # @raise [UnavailableError] after {#down!}
      # @raise [ArgumentError] the key is held already, or callers wait for it
      #
      # @example
      #   taken = store.take!("import", label: "web-2")
      #   store.try_acquire("import") # => nil
      #   taken.release               # => true
      def take!(key, label: "another process")
        _, store_key = locate(key)
        lease = MemoryLease.new(@backend, store_key, LONG_S, label: label)
        at(store_key) { |lock, now| lock.ask(lease, now, 0.0) }
        raise ArgumentError, "#{key.inspect} cannot be taken: it is held" unless lease.granted?

        Taken.new(lease)
      end

      # From now on, the store behaves as if its server were unreachable: calls raise
      # {UnavailableError}, releases and renewals fail, and leases end when they expire. Waiters
      # continue to wait.
      #
      # @return [nil]
      def down!
        @backend.go_down
        nil
      end

      # Ends the outage that {#down!} began, and carries out the releases that failed during it.
      #
      # @return [nil]
      def up!
        @backend.come_up
        nil
      end

      # Makes one attempt to take the lock for `owner`, like {Store#lock_acquire}.
      #
      # @param key [String] the raw key in the store
      # @param owner [String]
      # @param ttl [Numeric] seconds
      # @return [Boolean] false: the key is held
      def lock_acquire(key, owner, ttl)
        lease = MemoryLease.new(@backend, key, Locking::Arguments.ttl(ttl), token: owner)
        at(key) { |lock, now| lock.ask(lease, now, 0.0) }
        lease.granted?
      end

      # Releases the lock if, and only if, `owner` holds it, like {Store#lock_release}.
      #
      # @param key [String] the raw key in the store
      # @param owner [String]
      # @return [Boolean] was it held by `owner`?
      def lock_release(key, owner)
        at(key) do |lock, now|
          lease = lock.held_by(owner)
          next false if lease.nil? || lease.ended

          lock.leave(lease, now)
          true
        end
      end

      # @return [String]
      def url = "memory:#{@name}"

      # @return [nil]
      def close
        @closed = true
        nil
      end

      # @api private
      def release_all(holds, keep, _budget)
        Thread.handle_interrupt(UNINTERRUPTED) do
          Locking::ReleaseEach.call(holds) { |hold| hold.release(keep) }
        end
      end

      # @api private
      def adopt_hold(dump, renew, max_hold, watch, ttl = nil, heir = nil, replicas: nil, &taken)
        key, token = Store::StateHold.read(dump, KIND)
        next_token = heir ? Store::StateHold.read(heir, KIND)[1] : Plock.token
        lease = nil
        Dispatcher.start
        handing_out(taken, -> { give_back(lease) if lease && !heir }) do
          at(key) do |lock, now|
            given = lock.held_by(token)
            next if given.nil? || given.ended == :released

            given.finish(:given)
            lease = MemoryLease.new(@backend, key, ttl || given.ttl,
                                    token: next_token, label: given.owner[:label],
                                    share: given.share, renew: renew, max_hold: max_hold,
                                    watch: watch)
            lease.grant(
              @backend.next_fence(now), now, lease.ttl, ttl || (given.expires_at - now)
            )
            lock.replace(given, lease)
            hold_of(lease)
          end
        end
      end

      # @api private
      def examine(key, _shared, _budget = nil)
        at(key) do |lock, now|
          next if lock.idle?

          holders = lock.holders.map do |lease|
            Status.holder(remaining: lease.expires_at - now, fence: lease.fence,
                          **facts(lease, lease.granted_at))
          end
          [holders, lock.waiters.map { |lease| Status.waiter(**facts(lease, lease.since)) }]
        end
      end

      private

      # Runs the block with the lock of this key. After {#down!}, raises an {UnavailableError}.
      def at(key, &block)
        @backend.check_reach
        @backend.with(key, &block)
      end

      # The time on the clock that measures `wait:`.
      def now = @backend.now

      def take(key, ttl, wait, renew, max_hold, label, watch, share, _asking, _replicas, &given)
        started = Clock.now
        lease = MemoryLease.new(@backend, key, ttl, label: label, share: share, renew: renew,
                                                    max_hold: max_hold, watch: watch)
        Dispatcher.start # reports leases that are garbage-collected
        handing_out(given, -> { give_back(lease) }) do
          at(key) { |lock, now| lock.ask(lease, now, wait) }
          lease.await
          hold_of(lease, Clock.now - started) if lease.granted?
        end
      end

      def take_all(keys, ttl, renew, max_hold, label, watch, _asking, _left, _replicas, &given)
        leases = keys.map do |key|
          MemoryLease.new(@backend, key, ttl, label: label, renew: renew, max_hold: max_hold,
                                              watch: watch)
        end
        refused = nil
        started = Clock.now
        @backend.check_reach
        Dispatcher.start
        holds = handing_out(given, -> { leases.each { |lease| give_back(lease) } }) do
          refused = @backend.with_all(keys) do |locks, now|
            locks.index { |lock| !lock.idle? } ||
              locks.zip(leases) { |lock, lease| lock.ask(lease, now, 0.0) }
          end
          leases.map { |lease| hold_of(lease, Clock.now - started) } unless refused
        end
        holds || refused
      end

      # Removes an interrupted request from the queue, or releases its lease, because no caller
      # knows of either.
      def give_back(lease) = @backend.with(lease.key) { |lock, now| lock.leave(lease, now) }

      def hold_of(lease, waited = 0.0) = Store::StateHold.new(lease, KIND, waited, lease.contended?)

      # The facts that {Status} reports about a holder or waiter.
      def facts(lease, since)
        { **lease.owner, since: @backend.since_epoch(since), mode: lease.share&.mode }
      end

      def keys_after(prefix, _cursor)
        @backend.check_reach
        [@backend.held_keys.select { |key| key.start_with?(prefix) }, nil]
      end

      def keep_note(name, note, replace)
        @backend.check_reach
        @backend.keep_note(name, note, replace)
      end

      def break_hold(key, _shared, only)
        at(key) { |lock, now| lock.break(now, only&.map(&:fence)) }
      end
    end
  end
end
