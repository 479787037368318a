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

  # A lock that is held while a block runs. Processes on any number of machines share it through
  # one Redis.
  #
  # The lock has a time limit: if the holder dies, the lock frees itself after `ttl:`. So a block
  # that runs longer than its `ttl:` may overlap with the next holder's block; a warning says so
  # when the block ends. Choose a `ttl:` well above the longest run, and make the block harmless
  # if it runs twice.
  #
  # Each call looks up the store: `Parse.synchronize_create_store`, else `Parse.cache`. The store
  # may be:
  #
  # * a {Plock::Store} or a URL;
  # * a client of `redis` or `redis-client`, or a pool of them;
  # * `Parse::Cache::Redis`, or Moneta over Redis;
  # * any object with `lock_acquire` and `lock_release`;
  # * any object with `key?`, `create`, `[]` and `delete`.
  #
  # If there is no store, or only this process sees the store, the lock is degraded. It then
  # excludes only callers in this process, and `on_degraded:` chooses a warning or an error. An
  # invalid store raises {Plock::ConfigurationError} or {Plock::UnsupportedError}.
  #
  # Only the main Ractor can use the lock.
  #
  # @example
  #   Parse::Lock.acquire("import:#{batch_id}", ttl: 10) { run_import(batch_id) }
  # @example The second caller does nothing
  #   begin
  #     Parse::Lock.acquire("nightly", ttl: 30, wait: 0) { rollup }
  #   rescue Parse::Lock::TimeoutError
  #     # another process does it
  #   end
  module Lock
    # The prefix of a key's digest in the store.
    KEY_PREFIX = "parse-stack:lock:v1:"

    # Seconds until a lock frees itself, if {acquire} has no `ttl:`.
    DEFAULT_TTL = 3

    # Seconds that {acquire} waits, if it has no `wait:`.
    DEFAULT_WAIT = 2.0

    # The longest `ttl:` in seconds.
    MAX_TTL = 30

    # The longest `wait:` in seconds.
    MAX_WAIT = 30

    # The fewest bytes that a `secret:` may have.
    SECRET_MIN_BYTES = 16

    # The source named in warnings and errors.
    SOURCE = "Parse::Lock"

    private_constant :SOURCE

    class << self
      # Acquires the lock, runs the block, and releases the lock however the block ends: return,
      # `break`, `next`, `throw`, exception, Thread#kill, Timeout. The block never runs without the
      # lock.
      #
      # A failure of the store causes a warning on the standard error stream. A failed attempt
      # counts as refused. If a release fails, the method still returns the block's value.
      #
      # @param key [String] names the thing to lock: 1 to 1024 bytes of any kind. The store sees
      #   only a digest of the key.
      # @param ttl [Integer, #to_int, String] seconds until the lock frees itself, clamped to 1..30
      # @param wait [Float, #to_f, String] seconds to wait, clamped to 0.0..30; 0 makes exactly one
      #   attempt
      # @param on_degraded [Symbol] the action if the store is process-local: `:warn` warns at
      #   every call, `:warn_throttled` warns at most once in 60 s, `:proceed` is silent, and
      #   `:raise` raises an error
      # @param secret [Symbol, String, nil] the secret that hashes the key: `:auto` for the
      #   configured secret, a String of at least 16 bytes, or nil for no secret. Processes
      #   exclude one another only if they use the same secret.
      # @yieldparam token [String] the owner token of this hold, a UUID
      # @return [Object] the block's value
      # @raise [ArgumentError, TypeError, FloatDomainError] an invalid argument
      # @raise [TimeoutError] the lock was not acquired within `wait:`
      # @raise [UnavailableError] the store is process-local, with `on_degraded: :raise`
      # @raise [Plock::ConfigurationError, Plock::UnsupportedError] an invalid store, or one that
      #   plock cannot use
      def acquire(key, ttl: DEFAULT_TTL, wait: DEFAULT_WAIT, on_degraded: :warn, secret: :auto)
        raise ::ArgumentError, "block required" unless block_given?

        Arguments.check(key, on_degraded, secret)
        # Valid values of the right class need no conversion.
        ttl = Arguments.ttl(ttl) unless ::Integer === ttl && ttl >= 1 && ttl <= MAX_TTL
        wait = Arguments.wait(wait) unless ::Float === wait && wait > 0.0 && wait <= MAX_WAIT

        store = LockBackend.lock_store
        store = reachable(store) unless ::Plock::Store === store || ::Plock::LocalStore === store
        secret = Secrets.for(SOURCE) { !store } if secret == :auto

        # Each branch yields, because passing the block on would allocate a Proc.
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

      # Does the same as {LockBackend.reset!}, for the end of a test.
      #
      # @return [nil]
      def reset!
        [Degraded, Secrets, StoreResolver].each(&:reset)
        nil
      end

      private

      # A pool that has no client to lend now may have one before the wait is over. So this method
      # returns the pool itself instead of raising. An attempt without a client counts as failed.
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
