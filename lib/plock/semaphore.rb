# frozen_string_literal: true

require_relative "locking/shared_lock"

module Plock
  # A key that up to `permits:` holders share. {Locking#semaphore} returns a semaphore. Each
  # holder has its own lease, with a fence, a TTL and `on_lost:`, as with a lock. When all permits
  # are taken, callers wait in FIFO order.
  #
  # There is no counter to set up or repair, because a permit is free as soon as its lease ends.
  # Each caller passes its own `permits:`. A caller is admitted if the key has fewer holders than
  # that number. Callers with different numbers share one FIFO queue.
  #
  # @example Three at a time, whatever the number of workers
  #   Plock.semaphore("geocoder", permits: 3).acquire(ttl: 30, wait: 60) { geocode(address) }
  class Semaphore < Locking::SharedLock
    # @api private
    PERMITS = (1..65_535).freeze

    # @return [Integer]
    attr_reader :permits

    # @api private
    def initialize(store, key, store_key, permits)
      unless Integer === permits && PERMITS.cover?(permits)
        raise ArgumentError,
              "permits: must be an Integer from #{PERMITS.first} to #{PERMITS.last} " \
              "(got #{permits.inspect})"
      end

      super(store, key, store_key)
      @permits = permits
      @share = Locking::Share.of(permits)
      freeze
    end

    # Waits for a permit, holds it while the block runs, and releases it on every way out of the
    # block. Without a block it returns the lease, which the caller must release with
    # {Lease#release}.
    #
    # @param options [Hash{Symbol => Object}] as for {Locking#acquire}: `ttl:`, `wait:`, `renew:`,
    #   `max_hold:`, `at_least:`, `on_lost:`, `label:`, `replicas:`
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] the caller got no permit within `wait:`. The block has not run.
    # @raise [ArgumentError, UnsupportedError, Error] as {Locking#acquire} does
    #
    # @example
    #   lease = Plock.semaphore("exports", permits: 2).acquire(renew: true)
    #   lease.release # => true
    def acquire(**options, &block) = ask(@share, options, raises: true, &block)

    # Like {#acquire}, but returns nil if all permits are taken.
    #
    # @param wait [Numeric] seconds; the default of 0 makes one attempt
    # @param options [Hash{Symbol => Object}] as for {#acquire}
    # @yieldparam lease [Lease]
    # @return [Object, Lease, nil] nil if all permits are taken; otherwise the block's value, or
    #   the lease if there is no block
    # @raise [ArgumentError, Error] as {#acquire}, except {TimeoutError}
    #
    # @example
    #   Plock.semaphore("thumbnails", permits: 4).try_acquire { render } || head(:too_many_requests)
    def try_acquire(wait: 0, **options, &block)
      ask(@share, { wait: wait, **options }, raises: false, &block)
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{@key.inspect} permits=#{@permits}>"
    end
  end
end
