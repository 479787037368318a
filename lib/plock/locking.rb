# frozen_string_literal: true

require_relative "lease"
require_relative "locking/abilities"
require_relative "locking/agreement"
require_relative "locking/identity"
require_relative "locking/kind"
require_relative "locking/store_config"
require_relative "locking/share"
require_relative "locking/acquisition"
require_relative "locking/group_acquisition"
require_relative "locking/acquire_options"
require_relative "once"
require_relative "read_write_lock"
require_relative "semaphore"
require_relative "status"

module Plock
  # What can be done with the locks of a store: the methods of every store, and through the default
  # one of {Plock} itself.
  #
  # A key is a String or Symbol of 1 to 1024 bytes; the store sees a digest of it only, made with
  # the secret. Waiters are served in the order in which they came, across threads, fibers,
  # processes and machines.
  #
  # @example
  #   store = Plock::Store.open("redis://localhost:6379/1")
  #   store.acquire("invoice:7", ttl: 10, wait: 5) { |lease| send_invoice(7, fence: lease.fence) }
  module Locking
    include Identity
    include Agreement
    include Acquisition
    include GroupAcquisition

    # Waits for the key, holds it as long as the block runs, and releases it on every way out of the
    # block. Without a block the lease is returned, and is to be released by {Lease#release}.
    #
    # Where the release at the end of the block fails, or the lease was lost meanwhile and nobody is
    # told by `on_lost:`, that is warned of, and the block's value is returned all the same.
    #
    # @param key [String, Symbol]
    # @param ttl [Numeric] seconds, 0.005 to 31_622_400, after which the key frees itself if nobody
    #   extends or renews the lease
    # @param wait [Numeric] seconds of patience, up to 31_622_400; 0 makes exactly one attempt
    # @param renew [Boolean, nil] keep the lease alive as long as this process lives and holds it,
    #   even while Ruby is busy. nil: do so where there is a block and this call has no `ttl:`
    # @param max_hold [Numeric, nil] seconds after which it is renewed no more, so that it ends by
    #   itself; for a lease that is renewed
    # @param at_least [Numeric] seconds that the key stays taken, even if the lease is released
    #   before
    # @param on_lost [#call, :raise, nil] called with the lease, on a thread of plock's own, when it
    #   is lost; `:raise` raises {LeaseLost} in the thread that runs the block, as long as it is
    #   inside
    # @param label [String, Symbol, nil] up to 100 bytes that {#status} shows to everybody who can
    #   read the store
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] somebody else held it until patience ended. The block has not run.
    # @raise [ArgumentError] an argument that cannot be right
    # @raise [UnsupportedError] `on_lost: :raise` under a Fiber scheduler; `on_lost:` in a Ractor;
    #   this fiber holds the key already, for a block that it runs, and would wait for itself:
    #   {Monitor} can be entered again
    # @raise [UnavailableError, AuthenticationError, PermissionError, ProtocolError,
    #   UnsupportedError] the store failed
    #
    # @example A long job that stops when it is not alone any more
    #   store.acquire("import", ttl: 10, renew: true, on_lost: :raise) { import }
    def acquire(
      key, ttl: (usual = profile.ttl), wait: profile.wait, renew: nil, max_hold: nil, at_least: 0,
      on_lost: nil, label: nil, &block
    )
      terms =
        AcquireOptions.new(profile, block).with(
          ttl: ttl, ttl_given: usual.nil?, wait: wait, renew: renew, max_hold: max_hold,
          at_least: at_least, on_lost: on_lost, label: label
        )
      acquiring(key, profile.store_key(key), terms, block)
    end

    # The same for those who would rather do without than wait.
    #
    # @param (see #acquire)
    # @param wait [Numeric] as for {#acquire}; by default one attempt is made
    # @yieldparam lease [Lease]
    # @return [Lease, nil] nil: somebody else holds it. With a block its value, or nil where it has
    #   not run.
    # @raise (see #acquire)
    #
    # @example
    #   if (lease = store.try_acquire("nightly", ttl: 60))
    #     begin rollup ensure lease.release end
    #   end
    # @example Once a day, whoever's clock strikes first
    #   store.try_acquire("report:2024-05-01", at_least: 86_400) { report }
    def try_acquire(
      key, ttl: (usual = profile.ttl), wait: 0, renew: nil, max_hold: nil, at_least: 0,
      on_lost: nil, label: nil, &block
    )
      terms =
        AcquireOptions.new(profile, block).with(
          ttl: ttl, ttl_given: usual.nil?, wait: wait, renew: renew, max_hold: max_hold,
          at_least: at_least, on_lost: on_lost, label: label
        )
      trying(key, profile.store_key(key), terms, block)
    end

    # Waits for several keys, and holds them all as long as the block runs, or none. It is
    # {#acquire} for each of them otherwise, and callers who name the same keys in different orders
    # do not wait for each other.
    #
    # @param keys [Enumerable<String, Symbol>] 1 to 64 different ones
    # @param options [Hash{Symbol => Object}] as for {#acquire}: `ttl:`, `wait:` for all of them
    #   together, `renew:`, `max_hold:`, `at_least:`, `on_lost:`, which is called for each lease
    #   that is lost, `label:`
    # @yieldparam leases [Array<Lease>] one for each different key, in the order in which they were
    #   named first
    # @return [Object, Array<Lease>] the block's value; without a block the leases, each to be
    #   released
    # @raise [TimeoutError] somebody else held one of them until patience ended; the message names
    #   it. The block has not run, and none is held.
    # @raise (see #acquire)
    #
    # @example
    #   store.acquire_all(["account:1", "account:2"], ttl: 10) { |from, to| transfer(from.fence, to.fence) }
    def acquire_all(
      keys, ttl: (usual = profile.ttl), wait: profile.wait, renew: nil, max_hold: nil, at_least: 0,
      on_lost: nil, label: nil, &block
    )
      terms =
        AcquireOptions.new(profile, block).with(
          ttl: ttl, ttl_given: usual.nil?, wait: wait, renew: renew, max_hold: max_hold,
          at_least: at_least, on_lost: on_lost, label: label
        )
      asking_for_all(keys, terms, block, waits: true) do |lease, store_key, count|
        raise_timeout(
          "#{lease.key.inspect}, one of #{count} keys,", lease.key, store_key, terms.wait,
          lease.waited_with
        )
      end
    end

    # The same for those who would rather do without than wait.
    #
    # @param (see #acquire_all)
    # @param wait [Numeric] seconds for all of them together; by default one attempt is made
    # @yieldparam leases [Array<Lease>]
    # @return [Array<Lease>, nil] nil: somebody else holds one of them. With a block its value, or
    #   nil where it has not run.
    # @raise (see #acquire)
    def try_acquire_all(keys, wait: 0, **options, &block)
      asking_for_all(keys, terms(block, wait: wait, **options), block, waits: false) { nil }
    end

    # A lock of this key that so many can hold at a time. It does not meet other kinds of locks of
    # the same key.
    #
    # @param key [String, Symbol]
    # @param permits [Integer] 1 to 65_535
    # @return [Semaphore]
    # @raise [ArgumentError]
    #
    # @example
    #   store.semaphore("geocoder", permits: 3).acquire(wait: 60) { |lease| geocode(address) }
    def semaphore(key, permits:)
      Semaphore.new(self, key, profile.store_key(key, Kind::SEMAPHORE), permits)
    end

    # A lock of this key that many can read at a time, or one can write. It does not meet other
    # kinds of locks of the same key.
    #
    # @param key [String, Symbol]
    # @return [ReadWriteLock]
    # @raise [ArgumentError]
    #
    # @example
    #   store.read_write_lock("prices").read { |lease| show(Price.all) }
    def read_write_lock(key)
      ReadWriteLock.new(self, key, profile.store_key(key, Kind::READ_WRITE))
    end

    # Runs the block at most once in so many seconds, among all processes: where it has run already,
    # or is running, nothing happens. Nobody waits. The window begins when the block does; a block
    # that takes longer ends it. It does not meet other kinds of locks of the same key.
    #
    # Where the process dies in the block, the window ends that many seconds after the last sign of
    # life.
    #
    # @param key [String, Symbol]
    # @param within [Numeric] seconds, 0.005 to 31_622_400
    # @param on_error [Symbol] where the block does not come to its end: `:release`, another may run
    #   at once; `:keep`, none before the window ends. An exception goes on its way in either case.
    #   `next` comes to the end; Timeout, Thread#kill, `throw`, `break` and `return` do not.
    # @param label [String, Symbol, nil] as for {#acquire}
    # @yieldparam lease [Lease]
    # @return [Once] whether the block has run here, and its value
    # @raise [ArgumentError]
    # @raise [Error] as for {#acquire}
    #
    # @example
    #   store.once("digest:2024-05-01", within: 86_400) { send_digest }.ran? # => true, and then false all day
    def once(key, within:, on_error: :release, label: nil, &block)
      raise ArgumentError, "once needs a block" unless block

      keeps = Arguments.on_error(on_error) == :keep
      span = Arguments.ttl(within, "within:")
      terms = terms(block, ttl: span, wait: 0, renew: true, at_least: span, label: label)
      trying(
        key, profile.store_key(key, Kind::ONCE), terms,
        ->(lease) { Once.new(true, run_once(lease, terms, keeps, block)) }
      ) || Once.not_run
    end

    # Takes over a lease that another process has handed over by {Lease#dump}. It gets another token
    # and a greater fence, so a dump is good for one adoption: the second one raises {LeaseLost},
    # wherever it is tried.
    #
    # Where the store's answer is lost, this raises, and what may have been adopted is released in
    # the background: then the key is free soon, or the dump is still good. It is never held by two.
    #
    # @param dump [String]
    # @param ttl [Numeric, nil] seconds that it has from now on, as for {#acquire}, and no fewer
    #   than are left of its `at_least:`; by default what it had
    # @param renew [Boolean, nil] as for {#acquire}, and so are the others
    # @param max_hold [Numeric, nil]
    # @param on_lost [#call, :raise, nil]
    # @param label [String, Symbol, nil] for events
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [LeaseLost] its time was over, it was broken, or it has been adopted already
    # @raise [ArgumentError] not the dump of a lease, or another argument that cannot be right
    # @raise [Error] as for {#acquire}
    def adopt(dump, ttl: nil, renew: nil, max_hold: nil, on_lost: nil, label: nil, &block)
      key, keep, rest = Lease.read(dump)
      span = ttl && [Arguments.ttl(ttl), keep].max
      terms =
        terms(
          block, ttl_given: !ttl.nil?, renew: renew, max_hold: max_hold, at_least: keep,
          on_lost: on_lost, label: label
        )
      terms.used = true # by whoever gave it away
      alarm = LossAlarm.for_leases if terms.raises?
      lease = Lease.new(key, terms, alarm)
      taking(lease, lease, terms, alarm, block) do
        agree unless @agreed
        lease.hold =
          adopt_hold(rest, terms.renew, terms.max_hold, terms.watch?, span) do |hold|
            lease.hold = hold
          end
        raise lost_before_adoption(key) unless lease.hold
      end
    end

    # @param key [String, Symbol, Status]
    # @return [Status]
    # @raise [Error] the store could not be asked
    def status(key)
      name, store_key = locate(key)
      agree unless @agreed
      look_at(name, store_key)
    end

    # Everything that is held in this store's namespace. Others come and go meanwhile: what is held
    # all the time is among them.
    #
    # @yieldparam status [Status] its key is nil: the store knows digests only. It can be given to
    #   {#status} and {#break}.
    # @return [nil, Enumerator] an Enumerator without a block
    # @raise [Error] the store could not be asked
    def each_lock(&block)
      return enum_for(:each_lock) unless block

      agree unless @agreed
      each_held(&block)
      nil
    end

    # Takes the key away from whoever holds it. The next lease has a higher fence; the holder learns
    # of it as {Lease#lost?} says.
    #
    # @param key [String, Symbol, Status]
    # @return [Boolean] did anybody hold it?
    # @raise [Error] the store could not be asked
    def break(key)
      store_key = locate(key).last
      agree unless @agreed
      break_hold(store_key, Kind.of(store_key).shared?)
    end

    private

    def locate(key)
      return [key.key, key.store_key] if key.is_a?(Status)

      [key, profile.store_key(key)]
    end

    def each_held
      return enum_for(:each_held) unless block_given?

      each_key(profile.prefix) do |store_key|
        next unless profile.own?(store_key)

        status = look_at(nil, store_key)
        yield status if status.held?
      end
    end

    def look_at(key, store_key)
      Status.new(key, store_key, examine(store_key, Kind.of(store_key).shared?))
    end

    # @return [Object] the block's value
    def run_once(lease, terms, keeps, block)
      terms.used = keeps
      value = block.call(lease)
      terms.used = true
      value
    end

    def terms(block, share = nil, **options)
      AcquireOptions.new(profile, block, share).with(**options)
    end
  end
end
