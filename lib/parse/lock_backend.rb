# frozen_string_literal: true

# An application may autoload both Parse::Lock and Parse::LockBackend, and two threads may then load
# the two files at once. To avoid a deadlock, each file loads the other only by naming its constant.
# This file first loads lock.rb, and lock.rb never waits for this file.
module Parse
  autoload :Lock, ::File.expand_path("lock", __dir__) unless const_defined?(:Lock, false)
  Lock
end

module Parse
  # The parts of {Parse::Lock}, under the names that applications and the find-or-create lock of
  # Parse Stack use. The files of `parse/lock/` do the work.
  #
  # The caller must release a lock that it acquires with these methods. Prefer
  # {Parse::Lock.acquire}, which waits without polling and always releases.
  #
  # @example
  #   store = Parse::LockBackend.lock_store
  #   owner = Plock.token
  #   if Parse::LockBackend.try_acquire(store, "parse-stack:foc:v1:#{digest}", owner, 3)
  #     begin
  #       find_or_create
  #     ensure
  #       Parse::LockBackend.release(store, "parse-stack:foc:v1:#{digest}", owner)
  #     end
  #   end
  module LockBackend
    class << self
      # Looks up the store: `Parse.synchronize_create_store` if set, else `Parse.cache` if defined.
      #
      # @return [Object, nil] nil if neither is set, or if one of them raises
      #   Parse::Error::ConnectionError
      def lock_store
        ::Parse.synchronize_create_store || (::Parse.cache if ::Parse.respond_to?(:cache))
      rescue *connection_errors
        nil
      end

      # @param store [Object, nil]
      # @return [Boolean] true if only this process sees the store, or if there is no store
      # @raise [Plock::ConfigurationError, Plock::UnsupportedError] plock cannot use this Redis
      #   store. Such a store does not count as degraded.
      def degraded_store?(store)
        Lock::StoreResolver.resolve(store).nil?
      rescue ::Plock::UnavailableError
        false # a pool that has no client to lend at the moment is still a shared store
      end

      # Handles a degraded store: warns or raises, as the caller chooses.
      #
      # @param mode [Symbol] `:warn`, `:warn_throttled` (at most once in 60 s), `:proceed` (silent)
      #   or `:raise`; any other value means `:warn`
      # @param key [String] the key as it would be in the store; the `:warn` warning shows its last
      #   12 characters
      # @param source [String] the caller's name; `[source]` begins the warning
      # @param unavailable_error [Class, nil] the error that `:raise` raises; nil means
      #   Parse::Error
      # @return [nil]
      # @raise [Parse::Error] with `:raise`
      def handle_degraded(mode, key, source: "Parse::LockBackend", unavailable_error: nil)
        Lock::Degraded.announce(mode, key, source, unavailable_error)
        nil
      end

      # Tries once to take the lock. It never raises a StandardError: if the store fails, it warns
      # on the standard error stream and returns false.
      #
      # @param store [Object] of any kind that {Parse::Lock} takes
      # @param key [String] the key as it will be in the store
      # @param owner [String] unique for this acquisition
      # @param ttl [Integer] seconds until the lock frees itself
      # @return [Boolean] whether the lock was acquired
      def try_acquire(store, key, owner, ttl)
        Lock::Attempts.acquire(store, key, owner, ttl) || false
      end

      # Releases the lock if `owner` holds it. It never raises a StandardError: if the store fails,
      # it warns.
      #
      # @param store [Object]
      # @param key [String]
      # @param owner [String]
      # @return [Boolean, nil] whether the owner held it; nil if the store failed
      def release(store, key, owner) = Lock::Attempts.release(store, key, owner)

      # @return [Float] the pause between two polls, 0.035 to 0.065 seconds
      def poll_interval = Lock::Attempts.interval

      # @return [Float] seconds of the monotonic clock
      def monotonic_now = ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)

      # Forgets which warnings were given, the generated secret, the idle mutexes, and the stores
      # that were found for objects. Call this at the end of a test. Connections stay open.
      #
      # @return [nil]
      def reset! = Lock.reset!

      # Returns the secret for a call that does not pass its own.
      #
      # @param store [Object, nil] the store. If no secret is configured, a process-local store
      #   uses {auto_secret}. With any other store, there is no secret, and this method warns once.
      # @param source [String] the caller's name, for the warning
      # @return [String, nil] nil if keys are hashed without a secret
      def lock_secret_for(store:, source: "Parse::LockBackend")
        Lock::Secrets.for(source) { degraded_store?(store) }
      end

      # @return [String, nil] `Parse.synchronize_create_secret.to_s` if set, else
      #   `ENV["PARSE_STACK_LOCK_SECRET"]`
      def configured_secret = Lock::Secrets.configured

      # @return [String] a random secret, which stays the same until {reset!} or the end of the
      #   process
      def auto_secret = Lock::Secrets.generated

      # Warns, once in each process, that keys are hashed without a secret.
      #
      # @param source [String] the caller's name
      # @return [nil]
      def warn_plain_sha_once(source:)
        Lock::Secrets.warn_once(source)
        nil
      end

      # The mutex for a key within this process. A thread that ends releases its mutex. If an
      # interrupt comes between `lock` and the next line, the mutex stays locked.
      # {synchronize_process_mutex} avoids this.
      #
      # @param key [String]
      # @return [Parse::Lock::ProcessMutex] an object with a Mutex's methods lock, try_lock,
      #   locked?, owned?, unlock and synchronize
      def process_mutex(key) = Lock::Degraded::MUTEXES[key]

      # Waits without limit for the key's mutex, and holds the mutex while the block runs.
      #
      # @param key [String]
      # @yield
      # @return [Object] the block's value
      # @raise [ThreadError] this fiber already holds it
      def synchronize_process_mutex(key, &block) = Lock::Degraded::MUTEXES.synchronize(key, &block)

      private

      # For a `rescue` clause: Ruby calls this only when an exception is raised. The application may
      # or may not define Parse::Error::ConnectionError.
      def connection_errors
        defined?(::Parse::Error::ConnectionError) ? [::Parse::Error::ConnectionError] : []
      end
    end
  end
end
