# frozen_string_literal: true

require_relative "locking/shared_lock"

module Plock
  # A key that so many can hold at a time: {Locking#semaphore} makes one. Each holds a lease of his
  # own, with a fence, an end and a voice when it is lost, as with a lock; who comes when all are
  # taken waits in line.
  #
  # There is nothing to set up, and nothing to count wrongly: what is held are leases, and a permit
  # is free when its lease is over, however that came. How many permits there are is what the one
  # says who asks. Where processes say different numbers, each is admitted while fewer than his
  # number are inside; who waits before him is served before him all the same.
  #
  # @example Three at a time, whatever the number of workers
  #   Plock.semaphore("geocoder", permits: 3).acquire(ttl: 30, wait: 60) { geocode(address) }
  class Semaphore < Locking::SharedLock
    # @api private
    PERMITS = (1..65_535).freeze

    # @return [Integer]
    attr_reader :permits

    # @api private
    # @raise [ArgumentError]
    def initialize(store, key, store_key, permits)
      unless Integer === permits && PERMITS.cover?(permits)
        raise ArgumentError, "permits: must be an Integer from #{PERMITS.first} to #{PERMITS.last} (got #{permits.inspect})"
      end

      super(store, key, store_key)
      @permits = permits
      @share = Locking::Share.of(permits)
      freeze
    end

    # Waits for a permit, holds it as long as the block runs, and gives it back on every way out of
    # the block. Without a block the lease is returned, and is to be released by {Lease#release}.
    #
    # @param options [Hash{Symbol => Object}] as for {Locking#acquire}: `ttl:`, `wait:`, `renew:`,
    #   `max_hold:`, `at_least:`, `on_lost:`, `label:`
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] all permits were taken until patience ended. The block has not run.
    # @raise [ArgumentError, UnsupportedError, Error] as {Locking#acquire} does
    #
    # @example
    #   lease = Plock.semaphore("exports", permits: 2).acquire(renew: true)
    #   lease.release # => true
    def acquire(**options, &block)
      ask(:acquiring, terms(@share, block, options), block)
    end

    # The same for those who would rather do without than wait.
    #
    # @param wait [Numeric] seconds; by default one attempt is made
    # @param options [Hash{Symbol => Object}] as for {#acquire}
    # @yieldparam lease [Lease]
    # @return [Lease, nil] nil: all permits are taken. With a block its value, or nil where it has
    #   not run.
    # @raise (see #acquire)
    #
    # @example
    #   Plock.semaphore("thumbnails", permits: 4).try_acquire { render } || head(:too_many_requests)
    def try_acquire(wait: 0, **options, &block)
      ask(:trying, terms(@share, block, { wait: wait, **options }), block)
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{@key.inspect} permits=#{@permits}>"
    end
  end
end
