# frozen_string_literal: true

require "plock"
require_relative "lock/application"
require_relative "lock/arguments"
require_relative "lock/attempts"
require_relative "lock/degraded"
require_relative "lock/errors"
require_relative "lock/reports"
require_relative "lock/secrets"
require_relative "lock/store_resolver"

module Parse
  unless const_defined?(:LockBackend, false)
    autoload :LockBackend, ::File.expand_path("lock_backend", __dir__)
  end

  # A lock that processes on any number of machines share through one Redis, held for the time of a
  # block.
  #
  # It is a lock with a time limit: if the holder dies, the lock frees itself after `ttl:`. So a
  # block that runs longer than its `ttl:` may overlap with the next one; that is warned of when it
  # ends. Choose a `ttl:` well above the longest run, and make what the block does harmless when
  # done twice.
  #
  # The store is looked up at every call: `Parse.synchronize_create_store`, else `Parse.cache`. It
  # may be a {Plock::Store} or a URL; a client of `redis` or `redis-client`, or a pool of them;
  # `Parse::Cache::Redis`; Moneta over Redis; any object with `lock_acquire` and `lock_release`; any
  # object with `key?`, `create`, `[]` and `delete`. Without any of these, or with a store that only
  # this process sees, the lock is degraded: it excludes within this process, and `on_degraded:`
  # says what to make of that. A store that is there but described wrongly raises
  # {Plock::ConfigurationError} or {Plock::UnsupportedError}.
  #
  # Belongs to the main Ractor.
  #
  # @example
  #   Parse::Lock.acquire("import:#{batch_id}", ttl: 10) { run_import(batch_id) }
  # @example Whoever comes second does nothing
  #   begin
  #     Parse::Lock.acquire("nightly", ttl: 30, wait: 0) { rollup }
  #   rescue Parse::Lock::TimeoutError
  #     # somebody else does it
  #   end
  module Lock
    KEY_PREFIX = "parse-stack:lock:v1:"

    # Seconds.
    DEFAULT_TTL = 3
    DEFAULT_WAIT = 2.0
    MAX_TTL = 30
    MAX_WAIT = 30

    SECRET_MIN_BYTES = 16

    # Who warns.
    SOURCE = "Parse::Lock"

    private_constant :SOURCE

    class << self
      # Acquires the lock, runs the block, and releases the lock on every way out of it: return,
      # `break`, `next`, `throw`, exception, Thread#kill, Timeout. The block never runs without the
      # lock.
      #
      # An attempt that fails in the store is warned of on the standard error stream and counts as
      # not acquired; so is a release that fails, and then the block's value is returned all the
      # same.
      #
      # @param key [String] names what is locked: 1 to 1024 bytes of any kind. The store sees only a
      #   digest of it.
      # @param ttl [Integer, #to_int, String] seconds until the lock frees itself; brought into
      #   1..30
      # @param wait [Float, #to_f, String] seconds to wait for it; brought into 0.0..30. 0 makes
      #   exactly one attempt.
      # @param on_degraded [Symbol] with a process-local store: `:warn` at every call,
      #   `:warn_throttled` at most once in 60 s, `:proceed` in silence, or `:raise`
      # @param secret [Symbol, String, nil] what the key is hashed with: `:auto`, the configured
      #   secret; a String of at least 16 bytes; nil, none. Processes exclude one another only if
      #   they use the same.
      # @yieldparam token [String] the owner token of this hold, a UUID
      # @return [Object] the block's value
      # @raise [ArgumentError, TypeError, FloatDomainError] an argument that cannot be right
      # @raise [TimeoutError] not acquired within `wait:`
      # @raise [UnavailableError] the store is process-local, with `on_degraded: :raise`
      # @raise [Plock::ConfigurationError, Plock::UnsupportedError] the store is described wrongly,
      #   or is one that plock cannot use
      def acquire(key, ttl: DEFAULT_TTL, wait: DEFAULT_WAIT, on_degraded: :warn, secret: :auto)
        raise ::ArgumentError, "block required" unless block_given?

        Arguments.check(key, on_degraded, secret)
        # What is right as it stands needs no call.
        ttl = Arguments.ttl(ttl) unless ::Integer === ttl && ttl >= 1 && ttl <= MAX_TTL
        wait = Arguments.wait(wait) unless ::Float === wait && wait > 0.0 && wait <= MAX_WAIT

        store = LockBackend.lock_store
        store = reachable(store) unless ::Plock::Store === store || ::Plock::LocalStore === store
        secret = Secrets.for(SOURCE) { !store } if secret == :auto

        # Each of the three calls the block directly: passing it on as an object would cost one.
        if ::Plock::Store === store || ::Plock::LocalStore === store
          result =
            store.hold_digest(KEY_PREFIX, key, secret, ttl * 1000, wait, Reports) do |token|
              yield token
            end
          ::Plock::Store::UNACQUIRED.equal?(result) ? give_up(key, wait) : result
        elsif store
          within_attempts(
            store, key, ::Plock.store_key(KEY_PREFIX, key, secret), ttl, wait
          ) { |token| yield token }
        else
          within_process(
            key, ::Plock.store_key(KEY_PREFIX, key, secret), wait, on_degraded
          ) { |token| yield token }
        end
      end

      # Forgets what {LockBackend.reset!} forgets, for the end of a test.
      #
      # @return [nil]
      def reset!
        [Degraded, Secrets, StoreResolver].each(&:reset)
        nil
      end

      private

      # A pool that lends no client now may do so before the wait is over, so that is not an end,
      # but a failed attempt.
      def reachable(source)
        StoreResolver.resolve(source)
      rescue ::Plock::UnavailableError
        source
      end

      def within_attempts(store, key, store_key, ttl, wait)
        owner = ::Plock.token
        Attempts.hold(store, store_key, owner, ttl, wait) do |asked_at|
          give_up(key, wait) unless asked_at
          begin
            yield owner
          ensure
            held = LockBackend.monotonic_now - asked_at
            Reports.overrun(key, held, ttl) if held > ttl
          end
        end
      end

      def within_process(key, store_key, wait, mode)
        Degraded.announce(mode, store_key, SOURCE, UnavailableError)
        token = ::Plock.token
        Degraded::MUTEXES.hold(store_key, wait, token) do |held|
          held ? yield(token) : give_up(key, wait)
        end
      end

      def give_up(key, wait)
        raise TimeoutError, "Parse::Lock.acquire: could not acquire #{key.inspect} within #{wait}s"
      end
    end
  end
end
