# frozen_string_literal: true

require_relative "lease"
require_relative "locking/abilities"
require_relative "locking/agreement"
require_relative "locking/kind"
require_relative "locking/listing"
require_relative "locking/store_config"
require_relative "locking/release_each"
require_relative "locking/share"
require_relative "locking/acquisition"
require_relative "locking/direct"
require_relative "locking/group_acquisition"
require_relative "locking/acquire_options"
require_relative "once"
require_relative "pool_status"
require_relative "read_write_lock"
require_relative "semaphore"
require_relative "status"

module Plock
  # The methods of every store. {Plock} has the same methods, which call the default store.
  #
  # A key is a String or Symbol of 1 to 1024 bytes. The store receives only its digest, made with
  # the secret. Waiters are admitted in FIFO order: across all processes if the store has the
  # ability `:order` ({#can?}), otherwise only within each process.
  #
  # @example
  #   store = Plock::Store.open("redis://localhost:6379/1")
  #   store.acquire("invoice:7", ttl: 10, wait: 5) { |lease| send_invoice(7, fence: lease.fence) }
  module Locking
    include Agreement
    include Acquisition
    include GroupAcquisition
    include Listing

    # @api private
    attr_accessor :config

    # Waits for the key, holds it while the block runs, and releases it however the block ends.
    # Without a block it returns the lease, which the caller must release with {Lease#release}.
    #
    # If the release at the end of the block fails, plock logs a warning and returns the block's
    # value. It does the same if the lease was lost during the block and there is no `on_lost:`.
    #
    # @param key [String, Symbol]
    # @param ttl [Numeric] seconds, 0.005 to 31_622_400, after which the lease expires, unless it
    #   is extended or renewed
    # @param wait [Numeric] seconds to wait for the key, 0 to 31_622_400; 0 makes exactly one
    #   attempt
    # @param renew [Boolean, nil] renew the lease while this process holds it, even while Ruby is
    #   busy. nil: renew it if there is a block and this call has no `ttl:`
    # @param max_hold [Numeric, nil] seconds, 0.005 to 31_622_400, after which a renewed lease is
    #   no longer renewed, so that it expires
    # @param at_least [Numeric] seconds, 0 to 31_622_400, for which the key stays taken after the
    #   acquire, even if the lease is released earlier
    # @param on_lost [#call, :raise, nil] called with the lease, on one of plock's own threads,
    #   when the lease is lost; `:raise` raises {LeaseLost} in the thread that runs the block, but
    #   not after the block has ended
    # @param label [String, Symbol, nil] 1 to 100 bytes that {#status} shows to all readers of the
    #   store
    # @param release [Symbol, nil] `:background` sends the release at the end of the block without
    #   waiting for the answer; `:wait` waits for the answer; nil: the store's `release:` option
    #   decides. A lease without a block is released by {Lease#release}, which waits
    # @param replicas [Integer, nil] 0 to 100: how many replicas must confirm the lease, and each
    #   of its extensions and renewals, before it counts; nil: the store's `replicas:` decides
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] another holder kept the key until `wait:` ended; the block did not run
    # @raise [ArgumentError] an argument is invalid
    # @raise [UnsupportedError] `on_lost: :raise` under a Fiber scheduler or in a signal handler;
    #   `on_lost:` outside of the main Ractor; this fiber already holds the key for a block, and
    #   would wait for itself: use a {Monitor}, which is reentrant
    # @raise [ConfigurationError] other processes use a different secret in this namespace
    # @raise [UnavailableError] too few replicas confirmed the lease (code `:unreplicated`), so
    #   plock releases it in the background
    # @raise [UnavailableError, AuthenticationError, PermissionError, ProtocolError,
    #   UnsupportedError] the store failed
    #
    # @example A long job that stops when its lease is lost
    #   store.acquire("import", ttl: 10, renew: true, on_lost: :raise) { import }
    def acquire(
      key, ttl: USUAL, wait: USUAL, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
      label: nil, release: nil, replicas: nil, &block
    )
      if @plain && block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) &&
         on_lost.nil? && label.nil? && release.nil? && replicas.nil?
        value = acquire_directly(@plain, key, nil, nil, ttl, wait, false, true, &block)
        return value unless PlainCalls::UNDONE.equal?(value)
      end
      options =
        new_options(block).with(
          ttl: ttl, wait: wait, renew: renew, max_hold: max_hold, at_least: at_least,
          on_lost: on_lost, label: label, release: release, replicas: replicas
        )
      acquiring(key, config.store_key(key), options, block, raises: true)
    end

    # Like {#acquire}, but returns nil if the key is held.
    #
    # @param (see #acquire)
    # @param wait [Numeric] as for {#acquire}; the default of 0 makes one attempt
    # @yieldparam lease [Lease]
    # @return [Object, Lease, nil] nil if another holder has the key. With a block, the block's
    #   value, or nil if the block has not run.
    # @raise [ArgumentError, Error] as {#acquire}, except {TimeoutError}
    #
    # @example
    #   if (lease = store.try_acquire("nightly", ttl: 60))
    #     begin rollup ensure lease.release end
    #   end
    # @example Once a day, in one of several processes
    #   store.try_acquire("report:2024-05-01", at_least: 86_400) { report }
    def try_acquire(
      key, ttl: USUAL, wait: 0, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
      label: nil, release: nil, replicas: nil, &block
    )
      if @plain && block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) &&
         on_lost.nil? && label.nil? && release.nil? && replicas.nil?
        value = acquire_directly(@plain, key, nil, nil, ttl, wait, false, false, &block)
        return value unless PlainCalls::UNDONE.equal?(value)
      end
      options =
        new_options(block).with(
          ttl: ttl, wait: wait, renew: renew, max_hold: max_hold, at_least: at_least,
          on_lost: on_lost, label: label, release: release, replicas: replicas
        )
      acquiring(key, config.store_key(key), options, block, raises: false)
    end

    # Waits for several keys, and holds either all of them or none while the block runs. In all
    # other respects it treats each key as {#acquire} does. Callers that name the same keys in
    # different orders do not deadlock.
    #
    # @param keys [Enumerable<String, Symbol>] 1 to 64 different keys
    # @param ttl [Numeric] as for {#acquire}
    # @param wait [Numeric] as for {#acquire}, for all keys together
    # @param renew [Boolean, nil] as for {#acquire}
    # @param max_hold [Numeric, nil] as for {#acquire}
    # @param at_least [Numeric] as for {#acquire}
    # @param on_lost [#call, :raise, nil] as for {#acquire}, called for each lost lease
    # @param label [String, Symbol, nil] as for {#acquire}
    # @param replicas [Integer, nil] as for {#acquire}
    # @yieldparam leases [Array<Lease>] one for each different key, in the order in which the
    #   caller first named the keys
    # @return [Object, Array<Lease>] the block's value; without a block the leases, each of which
    #   the caller must release
    # @raise [TimeoutError] another holder kept one of the keys until `wait:` ended; the message
    #   names that key. The block has not run, and the caller holds none of the keys.
    # @raise (see #acquire)
    #
    # @example
    #   store.acquire_all(["account:1", "account:2"], ttl: 10) do |from, to|
    #     transfer(from.fence, to.fence)
    #   end
    def acquire_all(
      keys, ttl: USUAL, wait: USUAL, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
      label: nil, replicas: nil, &block
    )
      if @plain && block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) &&
         on_lost.nil? && label.nil? && replicas.nil?
        value = acquire_all_directly(@plain, keys, ttl, wait, true, &block)
        return value unless PlainCalls::UNDONE.equal?(value)
      end
      options =
        new_options(block).with(
          ttl: ttl, wait: wait, renew: renew, max_hold: max_hold, at_least: at_least,
          on_lost: on_lost, label: label, replicas: replicas
        )
      acquiring_all(keys, options, block, raises: true)
    end

    # Like {#acquire_all}, but returns nil if one of the keys is held.
    #
    # @param (see #acquire_all)
    # @param wait [Numeric] seconds to wait for all keys together; the default of 0 makes one
    #   attempt
    # @yieldparam leases [Array<Lease>]
    # @return [Object, Array<Lease>, nil] nil if another holder has one of the keys. With a block,
    #   the block's value, or nil if the block has not run.
    # @raise [ArgumentError, Error] as {#acquire_all}, except {TimeoutError}
    def try_acquire_all(
      keys, ttl: USUAL, wait: 0, renew: nil, max_hold: nil, at_least: 0, on_lost: nil,
      label: nil, replicas: nil, &block
    )
      if @plain && block_given? && renew.nil? && max_hold.nil? && at_least.equal?(0) &&
         on_lost.nil? && label.nil? && replicas.nil?
        value = acquire_all_directly(@plain, keys, ttl, wait, false, &block)
        return value unless PlainCalls::UNDONE.equal?(value)
      end
      options =
        new_options(block).with(
          ttl: ttl, wait: wait, renew: renew, max_hold: max_hold, at_least: at_least,
          on_lost: on_lost, label: label, replicas: replicas
        )
      acquiring_all(keys, options, block, raises: false)
    end

    # A lock that up to `permits:` holders share. It is independent of locks of other kinds on the
    # same key.
    #
    # @param key [String, Symbol]
    # @param permits [Integer] 1 to 65_535
    # @return [Semaphore]
    # @raise [ArgumentError] the key or the number is invalid
    #
    # @example
    #   store.semaphore("geocoder", permits: 3).acquire(wait: 60) { |lease| geocode(address) }
    def semaphore(key, permits:)
      Semaphore.new(self, key, config.store_key(key, Kind::SEMAPHORE), permits)
    end

    # A lock that many readers share, or one writer holds. It is independent of locks of other
    # kinds on the same key.
    #
    # @param key [String, Symbol]
    # @return [ReadWriteLock]
    # @raise [ArgumentError] the key is invalid
    #
    # @example
    #   store.read_write_lock("prices").read { |lease| show(Price.all) }
    def read_write_lock(key)
      ReadWriteLock.new(self, key, config.store_key(key, Kind::READ_WRITE))
    end

    # Runs the block at most once in a window of `within:` seconds, across all processes. The window
    # begins when the block begins, and does not end before the block ends. Other calls in the
    # window return without waiting. The window is independent of other locks on the same key.
    #
    # If the process dies in the block, the window ends `within:` seconds after the last renewal.
    #
    # @param key [String, Symbol]
    # @param within [Numeric] seconds, 0.005 to 31_622_400
    # @param on_error [Symbol] if the block does not complete: `:release` lets another caller run
    #   its block at once; `:keep` lets no caller run its block before the window ends. An
    #   exception propagates in either case. `next` completes the block; Timeout, Thread#kill,
    #   `throw`, `break` and `return` do not. A block that releases its lease, or hands it over,
    #   counts as complete.
    # @param label [String, Symbol, nil] as for {#acquire}
    # @param replicas [Integer, nil] as for {#acquire}; the block runs only if the replicas
    #   confirm the lease
    # @yieldparam lease [Lease]
    # @return [Once] whether this call has run the block, and the block's value
    # @raise [ArgumentError] there is no block, or an argument is invalid
    # @raise [Error] as {#acquire}, except {TimeoutError}
    #
    # @example
    #   result = store.once("digest:2024-05-01", within: 86_400) { send_digest }
    #   result.ran? # => true, and then false all day
    def once(key, within:, on_error: :release, label: nil, replicas: nil, &block)
      raise ArgumentError, "once needs a block" unless block

      keeps = Arguments.on_error(on_error) == :keep
      span = Arguments.ttl(within, "within:")
      options = options_for(
        block, ttl: span, wait: 0, renew: true, at_least: span, label: label, replicas: replicas
      )
      run = ->(lease) do
        options.used = keeps
        value = block.call(lease)
        options.used = true
        Once.new(true, value)
      end
      acquiring(key, config.store_key(key, Kind::ONCE), options, run, raises: false) ||
        Once.new(false, nil)
    end

    # Takes over a lease that another process handed over with {Lease#dump}. The adoption gives
    # the lease a new token and a greater fence. So a dump can be adopted only once; a second
    # adoption raises {LeaseLost}.
    #
    # If the store's answer is lost, this method raises. The store may have carried out the
    # adoption, so plock releases the adopted lease in the background. Soon afterwards either the
    # key is free, or the dump can still be adopted. There are never two holders.
    #
    # @param dump [String]
    # @param ttl [Numeric, nil] seconds from now, as for {#acquire}, but never less than the rest of
    #   the lease's `at_least:`; by default the lease's former TTL
    # @param renew [Boolean, nil] as for {#acquire}
    # @param max_hold [Numeric, nil] as for {#acquire}
    # @param on_lost [#call, :raise, nil] as for {#acquire}
    # @param label [String, Symbol, nil] as for {#acquire}, but shown only in events
    # @param replicas [Integer, nil] as for {#acquire}; the dump does not contain this option
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [LeaseLost] the lease expired, was broken, or has been adopted already
    # @raise [ArgumentError] `dump` is not the dump of a lease, or another argument is invalid
    # @raise [Error] as for {#acquire}
    def adopt(
      dump, ttl: nil, renew: nil, max_hold: nil, on_lost: nil, label: nil, replicas: nil, &block
    )
      key, keep, rest = Lease.read(dump)
      span = ttl && [Arguments.ttl(ttl), keep].max
      options =
        options_for(
          block, ttl: span || USUAL, renew: renew, max_hold: max_hold, at_least: keep,
          on_lost: on_lost, label: label, replicas: replicas
        )
      options.used = true # the process that handed the lease over has already used it
      alarm = LossAlarm.for_leases if options.raises?
      lease = Lease.new(key, options, alarm)
      started = Clock.now if Events.listening
      taking(lease, lease, options, alarm, block) do
        agree unless @agreed
        lease.hold =
          adopt_hold(
            rest, options.renew, options.max_hold, options.watch?, span, replicas: options.replicas
          ) do |hold|
            lease.hold = hold
          end
        raise lost_before_adoption(key) unless lease.hold

        lease.tell(:adopt, Clock.now - started, ttl: lease.ttl) if started
      end
    end

    # Asks the store for the holders and the waiters of the key.
    #
    # @param key [String, Symbol, Status] a {Status} stands for its key
    # @return [Status]
    # @raise [ArgumentError] the key is invalid
    # @raise [Error] the request to the store failed
    def status(key)
      name, store_key = locate(key)
      agree unless @agreed
      look_at(name, store_key)
    end

    # Yields the status of each key that is held in this store's namespace. A key that is acquired
    # or released during the call may be missing. If another program has written something else
    # under a key's name, plock leaves that key out, and logs a warning.
    #
    # @yieldparam status [Status] its key is nil, because the store knows only digests. {#status}
    #   and {#break} accept the status in place of a key.
    # @return [nil, Enumerator] an Enumerator without a block
    # @raise [UnsupportedError] the store cannot list its keys
    # @raise [Error] the request to the store failed
    def each_lock(&block)
      return enum_for(:each_lock) unless block

      each_lock_within(nil, &block)
      nil
    end

    # Takes the key away from its holders. The next lease has a greater fence. The holders learn of
    # the loss as {Lease#lost?} describes.
    #
    # If a {Status} is passed, only the holders in it lose the key. A holder that acquires the key
    # during this call keeps its lease. The stores tell holders apart by their fences. They cannot
    # tell apart holders without a fence, such as those of other programs.
    #
    # {Store::Advisory} cannot tell apart the holders of other processes. {Store::Memcached} also
    # compares host, pid and thread. It may take the key from a thread that releases the key and
    # acquires it again during this call.
    #
    # @param key [String, Symbol, Status] a {Status} stands for its key
    # @return [Boolean] was the key held, and by a holder in the {Status} if one was passed?
    # @raise [ArgumentError] the key is invalid
    # @raise [Error] the request to the store failed
    def break(key)
      break_key(locate(key).last, key.is_a?(Status) ? key.holders : nil)
    end

    # @api private
    # @param only [Array<Status::Holder>, nil] the holders that lose the key; nil: all
    # @return [Boolean] was the key held by one of these holders?
    def break_key(store_key, only = nil)
      agree unless @agreed
      return false if only && only.empty?

      break_hold(store_key, Kind.of(store_key).shared?, only)
    end

    # @return [PoolStatus, nil] the store's connections in this process; nil: the store has none
    def pool_status = nil

    # @return [Boolean] is the server trusted without a check of its certificate, as with TLS
    #   and `verify: :none`?
    def unverified? = false

    # @return [Boolean] is the store closed? The next call opens it again.
    def closed? = @closed

    # @return [String]
    def inspect = "#<#{self.class} #{url}>"

    private

    def locate(key)
      return [key.key, key.store_key] if key.is_a?(Status)

      [key, config.store_key(key)]
    end
  end
end
