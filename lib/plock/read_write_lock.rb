# frozen_string_literal: true

require_relative "errors"
require_relative "locking/own_shares"
require_relative "locking/shared_lock"

module Plock
  # A key that many readers share, or one writer holds. {Locking#read_write_lock} returns such a
  # lock. Each holder has its own lease, with a fence, a TTL and `on_lost:`, as with a plain lock.
  #
  # Callers are admitted in FIFO order. A writer waits for the readers before it, and later callers
  # wait behind it, so neither readers nor writers starve.
  #
  # A fiber never waits for itself. If the fiber already reads, {#read} with a block uses the
  # fiber's lease, and releases nothing at the block's end. A call that would have to wait for its
  # own fiber raises {UnsupportedError}.
  #
  # @example
  #   lock = Plock.read_write_lock("prices")
  #   lock.read { |lease| show(Price.all) }
  #   lock.write(ttl: 60) do |lease|
  #     Price.import
  #     lease.downgrade # others may read now; no other writer came in between
  #     Report.build
  #   end
  class ReadWriteLock < Locking::SharedLock
    # @api private
    def initialize(store, key, store_key)
      super
      @id = [store, store_key].freeze
      freeze
    end

    # Waits until the caller can read, and holds a read lease while the block runs. Without a
    # block it returns the lease, which the caller must release with {Lease#release}.
    #
    # If this fiber already reads, the block runs at once with the fiber's lease. The options are
    # checked, but otherwise ignored.
    #
    # @param options [Hash{Symbol => Object}] as for {Locking#acquire}: `ttl:`, `wait:`, `renew:`,
    #   `max_hold:`, `at_least:`, `on_lost:`, `label:`, `replicas:`
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] a writer held the key, or was waiting for it, when `wait:` ended. The
    #   block has not run.
    # @raise [UnsupportedError] this fiber already writes, or it already reads and passes no block
    # @raise [ArgumentError, Error] as {Locking#acquire} does
    def read(**options, &block) = share(Locking::Share::READ, options, raises: true, &block)

    # Waits until the caller can write, and holds the only lease while the block runs.
    #
    # @param options [Hash{Symbol => Object}] as for {#read}
    # @yieldparam lease [Lease] {Lease#downgrade} turns it into a read lease
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] others read or wrote until `wait:` ended. The block has not run.
    # @raise [UnsupportedError] this fiber already reads or writes, so it would wait for itself
    # @raise [ArgumentError, Error] as {Locking#acquire} does
    def write(**options, &block) = share(Locking::Share::WRITE, options, raises: true, &block)

    # Like {#read}, but returns nil if the caller cannot read now.
    #
    # @param wait [Numeric] seconds; the default of 0 makes one attempt
    # @param options [Hash{Symbol => Object}] as for {#read}
    # @yieldparam lease [Lease]
    # @return [Object, Lease, nil] nil if a writer holds the key or is waiting for it. With a
    #   block, the block's value, or nil if the block has not run.
    # @raise [ArgumentError, Error] as {#read}, except {TimeoutError}
    def try_read(wait: 0, **options, &block)
      share(Locking::Share::READ, { wait: wait, **options }, raises: false, &block)
    end

    # Like {#write}, but returns nil if the caller cannot write now.
    #
    # @param wait [Numeric] seconds; the default of 0 makes one attempt
    # @param options [Hash{Symbol => Object}] as for {#read}
    # @yieldparam lease [Lease]
    # @return [Object, Lease, nil] nil if others read or write. With a block, the block's value,
    #   or nil if the block has not run.
    # @raise [ArgumentError, Error] as {#write}, except {TimeoutError}
    def try_write(wait: 0, **options, &block)
      share(Locking::Share::WRITE, { wait: wait, **options }, raises: false, &block)
    end

    # @return [String]
    def inspect = "#<#{self.class} #{@key.inspect}>"

    private

    def share(share, options, raises:, &block)
      own = Locking::OwnHolds.find(@store, @store_key) || Locking::OwnShares.find(@id)
      return go_on_with(own, share, options, block) if own
      return ask(share, options, raises: raises, &block) if block_given?

      ask(share, options, raises: raises)&.tap { |lease| Locking::OwnShares.here.add(@id, lease) }
    end

    def go_on_with(own, share, options, block)
      options_for(share, options, block) # raises if an option is invalid
      return block.call(own) if block && own.mode == :read && share.name == :read

      raise UnsupportedError,
            "this fiber #{own.mode == :read ? "reads" : "writes"} #{@key.inspect} already, " \
            "and would wait for itself: #{advice(own, share)}"
    end

    def advice(own, share)
      if own.mode == share.name && share.name == :read
        return "let it read with a block, or use the lease that it has"
      end
      return "release the lease that reads, and ask to write from the start" if own.mode == :read

      share.name == :read ? "lease.downgrade lets it go on reading" : "use the lease that it has"
    end
  end
end
