# frozen_string_literal: true

require "plock"
require_relative "stand_in"

Plock::Compat::StandIn.claim("remote_lock", "RemoteLock")

require_relative "remote_lock/leftovers"
require_relative "remote_lock/waiting"

# The API of the gem `remote_lock` on plock's engine. Require `plock/compat/remote_lock` instead of
# that gem. The keys and values in the store are the same as the gem's, so processes using plock
# and processes using the gem exclude one another.
#
# The lock belongs to the fiber that acquired it, and that fiber may enter it again. The lock
# expires after `expiry:`.
#
# @example
#   lock = RemoteLock.new(RemoteLock::Adapters::Redis.new(Redis.new), "billing")
#   lock.synchronize("invoice:7", expiry: 30) { Invoice.find(7).send_once }
class RemoteLock
  # Raised when another caller held the lock at every try. The block has not run.
  class Error < RuntimeError; end

  # The default options of {#acquire_lock}. `initial_wait` and `expiry` are in seconds.
  DEFAULT_OPTIONS = { initial_wait: 10e-3, expiry: 60, retries: 11 }.freeze

  # The options of {#synchronize}.
  OPTIONS = [*DEFAULT_OPTIONS.keys, :wrap_in_transaction].freeze

  # The most tries whose pauses are added up. The pauses between so many tries are longer than any
  # possible wait, so the pauses of further tries do not matter.
  TRIES_COUNTED = 1_100
  private_constant :OPTIONS, :TRIES_COUNTED

  # The adapters of plock. Each one is loaded when it is first used, with the client library that it
  # needs.
  module Adapters
    autoload :Base, File.expand_path("remote_lock/adapters/base", __dir__)
    autoload :Memcached, File.expand_path("remote_lock/adapters/memcached", __dir__)
    autoload :Redis, File.expand_path("remote_lock/adapters/redis", __dir__)
    autoload :Store, File.expand_path("remote_lock/adapters/store", __dir__)
  end

  # @param adapter [Adapters::Base, #store] of any class that has `store(key, seconds)`,
  #   `has_key?(key)` and `delete(key)`
  # @param prefix [String, nil] precedes every key
  # @raise [RuntimeError] the adapter lacks one of these methods
  def initialize(adapter, prefix = nil)
    raise "Invalid Adapter" unless Adapters::Base.valid?(adapter)

    @adapter = adapter
    @prefix = prefix
  end

  # Acquires the lock, runs the block, and releases the lock however the block ends. If this fiber
  # already holds the lock, the method only runs the block.
  #
  # A failed release is only logged, so the caller receives the block's value or exception. If the
  # lock is still in the store, this fiber releases it before it acquires the lock again.
  #
  # @param key [#to_s]
  # @param options [Hash{Symbol => Object}] as for {#acquire_lock}
  # @option options [Boolean, #transaction] :wrap_in_transaction (false) true runs the block in a
  #   transaction of ActiveRecord::Base; a class runs it in a transaction of that class. The
  #   transaction commits before the lock is released, unless another transaction is already open
  #   around it.
  # @yield with the lock
  # @return [Object] the block's value
  # @raise [Error] the lock was not acquired
  # @raise [ArgumentError] an option is invalid
  # @raise [Plock::Error] the store failed
  def synchronize(key, options = {}, &block)
    model = transactions(options)
    options = options.except(:wrap_in_transaction)
    return run(model, &block) if acquired?(key) && !left_over?(key)

    holding(key, options) { run(model, &block) }
  end

  # {#synchronize} for several keys. Callers that name the same keys in different orders do not
  # deadlock.
  #
  # @param keys [Enumerable<#to_s>]
  # @param options [Hash{Symbol => Object}] as for {#synchronize}; the time to wait applies to each
  #   key
  # @yield with all locks
  # @return [Object] the block's value
  # @raise (see #synchronize)
  def synchronize_all(keys, options = {}, &block)
    transactions(options) # raises for an invalid option before the first lock is acquired
    innermost = -> { run(transactions(options), &block) }
    keys.map(&:to_s).uniq.sort.reverse.inject(innermost) do |inner, key|
      -> { synchronize(key, options.except(:wrap_in_transaction), &inner) }
    end.call
  end

  # Waits for the lock, but no longer than `retries` tries with growing pauses would take: 10 to 20
  # seconds by default. The caller must call {#release_lock} when its work is done. A caller that
  # already holds the lock also waits.
  #
  # With plock's adapters, callers wait in a queue instead of sleeping between tries. On Redis, the
  # first waiter is notified as soon as the lock is free. If Kernel.sleep or a method of the adapter
  # has been replaced, as in tests, this method makes the tries one by one.
  #
  # @param key [#to_s]
  # @param options [Hash{Symbol => Object}]
  # @option options [Numeric] :initial_wait (0.01) seconds, 0 or more; the pause after the n-th
  #   try is `2 ** (n - 1)` to `2 ** n` times this value
  # @option options [Numeric] :expiry (60) seconds until the lock expires, up to 31_622_400
  # @option options [Integer, Float] :retries (11) number of tries; 0 makes none, and
  #   Float::INFINITY sets no limit. plock's adapters wait no longer than the sum of the pauses, and
  #   no longer than 366 days.
  # @return [nil]
  # @raise [Error] the lock was not acquired
  # @raise [ArgumentError] an option is invalid
  # @raise [Plock::Error] the store failed
  def acquire_lock(key, options = {})
    settings = settings(options)
    settle_left_over(key) if left_over?(key)
    if settings[:retries].positive? && obtain(key_for(key), settings)
      forget_left_over(key)
      return
    end

    raise Error, "Couldn't acquire lock for: #{key}"
  end

  # Releases the lock if this fiber holds it.
  #
  # @param key [#to_s]
  # @return [Boolean, Object] with plock's adapters, whether the lock was still ours
  # @raise [Plock::Error] the store failed; the lock then expires
  def release_lock(key)
    released = false
    ours = @adapter.delete(key_for(key))
    released = true
    ours
  ensure
    released ? forget_left_over(key) : leave_over(key)
  end

  # @param key [#to_s]
  # @return [Boolean] whether this fiber holds the lock
  # @raise [Plock::Error] the store failed
  def acquired?(key) = @adapter.has_key?(key_for(key))

  private

  def key_for(string) = [@prefix, "lock", string].compact.join("|")

  def obtain(name, settings)
    expiry, tries = settings.values_at(:expiry, :retries)
    if @adapter.respond_to?(:obtains?) && @adapter.obtains?
      counted = [tries, TRIES_COUNTED].min
      # not #sum, which returns NaN for such large numbers
      wait = (1...counted).inject(0.0) { |sum, tried| sum + pause_after(tried, settings) }
      return @adapter.obtain(name, expiry, wait)
    end

    1.upto(tries - 1) do |tried|
      return true if @adapter.store(name, expiry)

      Kernel.sleep(pause_after(tried, settings))
    end
    @adapter.store(name, expiry)
  end

  def pause_after(tried, settings)
    [2.0**(tried + rand - 1), Float::MAX].min * settings[:initial_wait]
  end

  # The place of a lock: its store and its key. The place is the same for all adapters that use the
  # same store.
  def place(key)
    store = Waiting === @adapter ? @adapter.turns : @adapter
    [store.__id__, key_for(key)].freeze
  end

  def left_over?(key) = Leftovers.any? && Leftovers.include?(place(key))

  def leave_over(key) = Leftovers.add(place(key))

  def settle_left_over(key)
    release_lock(key) if Waiting === @adapter || acquired?(key)
    Leftovers.rename(place(key))
  end

  def forget_left_over(key)
    Leftovers.delete(place(key)) if Leftovers.any?
  end

  # Holds the lock while the block runs. An interrupt may come after the store has granted the lock,
  # but before this method knows of the grant. So after an interrupt, this method asks the store
  # whether the lock is ours, and releases it if it is. If the store refused the lock, there is no
  # release. If the store failed, the adapter has already tried to undo the request. A child that
  # was forked in the block releases nothing, because the lock is its parent's.
  def holding(key, options)
    pid = Process.pid
    entered = refused = failed = again = false
    acquire_lock(key, options)
    entered = true
    yield
  rescue Error, ArgumentError
    refused = !entered
    raise
  rescue *Plock::Locking::Acquisition::STORE_FAILURES
    failed = true
    raise
  ensure
    Plock::Interrupts.complete do
      first = !again
      again = true
      leave(key, pid, entered, failed, first: first) unless refused
    end
  end

  # An application's own adapter may delete a lock that another owner holds. So its `delete` is
  # called only if the lock is ours.
  #
  # @param first [Boolean] false if a signal handler has interrupted an earlier call of this method,
  #   which may already have released the lock
  def leave(key, pid, entered, failed, first:)
    return unless pid == Process.pid

    leave_over(key) unless entered
    return unless entered || (!failed && acquired?(key))
    return unless release_lock(key) == false && entered && first

    warn_of(key, "was lost before its block ended: another caller may have run at the same time. " \
                 "Raise expiry: above the longest run")
  rescue Plock::Error => e
    warn_of(key, "could not be released (#{e.class}: #{e.message}): it frees itself")
  rescue StandardError
    raise if entered # else the caller receives the exception that ended the acquire
  end

  def warn_of(key, what) = Plock::Log.warn(Plock.logger, "the lock #{key_for(key).inspect} #{what}")

  def settings(options)
    unknown = (options.keys - OPTIONS).first
    raise ArgumentError, "unknown option: #{unknown.inspect}" if unknown

    settings = DEFAULT_OPTIONS.merge(options)
    unless settings[:retries].is_a?(Integer) || settings[:retries] == Float::INFINITY
      raise ArgumentError, "retries must be an Integer (got #{settings[:retries].inspect})"
    end
    return settings if settings[:initial_wait].is_a?(Numeric) && !settings[:initial_wait].negative?

    raise ArgumentError,
          "initial_wait must be 0 or more seconds (got #{settings[:initial_wait].inspect})"
  end

  def transactions(options)
    model = options[:wrap_in_transaction] or return
    model = ::ActiveRecord::Base if model == true
    return model if model.respond_to?(:transaction)

    raise ArgumentError,
          "wrap_in_transaction must be true, or have transactions (got #{model.inspect})"
  end

  def run(model, &block) = model ? model.transaction { block.call } : block.call
end

Plock::Compat::StandIn.open("remote_lock")
