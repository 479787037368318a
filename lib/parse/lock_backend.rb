# frozen_string_literal: true

# Where an application declares autoloads, two threads may come for the two constants at once. So
# each file loads the other by its constant only, this one first of all, and lock.rb never waits for
# this one.
module Parse
  autoload :Lock, ::File.expand_path("lock", __dir__) unless const_defined?(:Lock, false)
  Lock
end

module Parse
  # The parts of {Parse::Lock} under the names that applications, and the find-or-create lock of
  # Parse Stack, call them by. Here are the names; the work is done in the files of `parse/lock/`.
  #
  # A lock made of these parts is the caller's to release. Prefer {Parse::Lock.acquire}, which also
  # waits without asking again and again, and cannot forget.
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
      # What locks are made in, asked for at every call: `Parse.synchronize_create_store` if set,
      # else `Parse.cache` where there is such; a Parse::Error::ConnectionError raised by that
      # counts as nil.
      #
      # @return [Object, nil]
      def lock_store
        ::Parse.synchronize_create_store || (::Parse.cache if ::Parse.respond_to?(:cache))
      rescue *connection_errors
        nil
      end

      # @param store [Object, nil]
      # @return [Boolean] is it seen by this process only, or no store at all?
      # @raise [Plock::ConfigurationError, Plock::UnsupportedError] it is a store of Redis that
      #   plock cannot use: that is not degraded, it is wrong
      def degraded_store?(store)
        Lock::StoreResolver.resolve(store).nil?
      rescue ::Plock::UnavailableError
        false # a pool that lends nothing at the moment is no store of this process alone
      end

      # Says or raises what the caller wishes to happen with a degraded store.
      #
      # @param mode [Symbol] `:warn`, `:warn_throttled` (at most once in 60 s), `:proceed` (silent)
      #   or `:raise`; any other is as good as `:warn`
      # @param key [String] as it would stand in the store; its last 12 bytes are printed
      # @param source [String] who asks: `[source]` begins the warning
      # @param unavailable_error [Class, nil] what `:raise` raises; nil: Parse::Error
      # @return [nil]
      def handle_degraded(mode, key, source: "Parse::LockBackend", unavailable_error: nil)
        Lock::Degraded.announce(mode, key, source, unavailable_error)
        nil
      end

      # Tries once to take the lock. Never raises a StandardError: a store that fails is warned of
      # on the standard error stream, and looks as if somebody else held the lock.
      #
      # @param store [Object] of any kind that {Parse::Lock} takes
      # @param key [String] as it is to stand in the store
      # @param owner [String] unique for this acquisition
      # @param ttl [Integer] seconds until the lock frees itself
      # @return [Boolean]
      def try_acquire(store, key, owner, ttl)
        Lock::Attempts.acquire(store, key, owner, ttl) || false
      end

      # Releases the lock if `owner` holds it. Never raises a StandardError: a store that fails is
      # warned of.
      #
      # @param store [Object]
      # @param key [String]
      # @param owner [String]
      # @return [Boolean, nil] was it the owner's? nil: the store failed
      def release(store, key, owner)
        Lock::Attempts.release(store, key, owner)
      end

      # @return [Float] seconds, 0.035 to 0.065, for callers that wait by asking again
      def poll_interval
        Lock::Attempts.interval
      end

      # @return [Float] seconds of a clock that only goes forward
      def monotonic_now
        ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
      end

      # Forgets warnings given, the secret made for this process, idle mutexes, and which object
      # resolved to which store. For the end of a test. Connections stay open.
      #
      # @return [nil]
      def reset!
        [Lock::Degraded, Lock::Secrets, Lock::StoreResolver].each(&:reset)
        nil
      end

      # The secret that a call without one of its own hashes keys with.
      #
      # @param store [Object, nil] decides what happens where none is configured: a process-local
      #   one gets {auto_secret}; for any other there is none, which is warned of once
      # @param source [String] who asks
      # @return [String, nil]
      def lock_secret_for(store:, source: "Parse::LockBackend")
        Lock::Secrets.for(source) { degraded_store?(store) }
      end

      # @return [String, nil] `Parse.synchronize_create_secret.to_s` if set, else
      #   `ENV["PARSE_STACK_LOCK_SECRET"]`
      def configured_secret
        Lock::Secrets.configured
      end

      # @return [String] a random secret, the same as long as the process lives
      def auto_secret
        Lock::Secrets.generated
      end

      # Warns, once in the life of the process, that keys are hashed without a secret.
      #
      # @param source [String] who asks
      # @return [nil]
      def warn_plain_sha_once(source:)
        Lock::Secrets.warn_once(source)
        nil
      end

      # The mutex for a key within this process. A thread that ends gives back what it has locked.
      # Between its `lock` and the first line of what follows an interrupt may come:
      # {synchronize_process_mutex} leaves nothing locked then.
      #
      # @param key [String]
      # @return [Parse::Lock::ProcessMutex] answers to a Mutex's lock, try_lock, locked?, owned?,
      #   unlock and synchronize
      def process_mutex(key)
        Lock::Degraded::MUTEXES[key]
      end

      # Runs the block with the mutex for the key held, however long that takes to come.
      #
      # @param key [String]
      # @yield
      # @return [Object] the block's value
      # @raise [ThreadError] this fiber holds it already
      def synchronize_process_mutex(key, &block)
        Lock::Degraded::MUTEXES.synchronize(key, &block)
      end

      private

      # Defined by the application, or not; looked for when an exception comes by.
      def connection_errors
        defined?(::Parse::Error::ConnectionError) ? [::Parse::Error::ConnectionError] : []
      end
    end
  end
end
