# frozen_string_literal: true

require_relative "errors"
require_relative "locking/own_shares"
require_relative "locking/shared_lock"

module Plock
  # A key that many can read at a time, or one can write: {Locking#read_write_lock} makes one. Each
  # holds a lease of his own, with a fence, an end and a voice when it is lost, as with a lock.
  #
  # Who comes is served in order. A writer waits for those who read before him, and whoever comes
  # after him waits behind him, so neither readers nor writers starve.
  #
  # A fiber does not wait for itself. Where it reads already, {#read} with a block goes on with the
  # lease it has: that costs nothing, and nothing is released at the block's end. What it would have
  # to wait for, it is refused: {UnsupportedError}.
  #
  # @example
  #   lock = Plock.read_write_lock("prices")
  #   lock.read { |lease| show(Price.all) }
  #   lock.write(ttl: 60) do |lease|
  #     Price.import
  #     lease.downgrade # others may read now, and nobody has written in between
  #     Report.build
  #   end
  class ReadWriteLock < Locking::SharedLock
    # @api private
    def initialize(store, key, store_key)
      super
      @id = [store, store_key].freeze
      freeze
    end

    # Waits until it can read, and reads as long as the block runs. Without a block the lease is
    # returned, and is to be released by {Lease#release}.
    #
    # Where this fiber reads already, the block runs at once, with the lease that is there and on
    # its terms.
    #
    # @param options [Hash{Symbol => Object}] as for {Locking#acquire}: `ttl:`, `wait:`, `renew:`,
    #   `max_hold:`, `at_least:`, `on_lost:`, `label:`
    # @yieldparam lease [Lease]
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] somebody wrote, or waited to write, until patience ended. The block has
    #   not run.
    # @raise [UnsupportedError] this fiber writes already, or reads already and there is no block
    # @raise [ArgumentError, Error] as {Locking#acquire} does
    def read(**options, &block)
      share(:acquiring, Locking::Share::READ, options, block)
    end

    # Waits until it can write, alone, as long as the block runs.
    #
    # @param options [Hash{Symbol => Object}] as for {#read}
    # @yieldparam lease [Lease] {Lease#downgrade} makes it one that reads
    # @return [Object, Lease] the block's value; without a block the lease
    # @raise [TimeoutError] others read or wrote until patience ended. The block has not run.
    # @raise [UnsupportedError] this fiber reads or writes already: it would wait for itself
    # @raise [ArgumentError, Error] as {Locking#acquire} does
    def write(**options, &block)
      share(:acquiring, Locking::Share::WRITE, options, block)
    end

    # {#read} for those who would rather do without than wait.
    #
    # @param wait [Numeric] seconds; by default one attempt is made
    # @param options [Hash{Symbol => Object}] as for {#read}
    # @yieldparam lease [Lease]
    # @return [Lease, nil] nil: somebody writes, or waits to. With a block its value, or nil where
    #   it has not run.
    # @raise (see #read)
    def try_read(wait: 0, **options, &block)
      share(:trying, Locking::Share::READ, { wait: wait, **options }, block)
    end

    # {#write} for those who would rather do without than wait.
    #
    # @param wait [Numeric] seconds; by default one attempt is made
    # @param options [Hash{Symbol => Object}] as for {#read}
    # @yieldparam lease [Lease]
    # @return [Lease, nil] nil: others read or write. With a block its value, or nil where it has
    #   not run.
    # @raise (see #write)
    def try_write(wait: 0, **options, &block)
      share(:trying, Locking::Share::WRITE, { wait: wait, **options }, block)
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{@key.inspect}>"
    end

    private

    def share(way, share, options, block)
      terms = terms(share, block, options)
      own_shares = Locking::OwnShares.here
      own = own_shares.find(@id)
      return go_on_with(own, share, block) if own
      return ask(way, terms, ->(lease) { own_shares.add(@id, lease) && block.call(lease) }) if block

      ask(way, terms, nil)&.tap { |lease| own_shares.add(@id, lease) }
    end

    def go_on_with(own, share, block)
      return block.call(own) if block && own.mode == :read && share.name == :read

      raise UnsupportedError.new("this fiber #{own.mode == :read ? "reads" : "writes"} #{@key.inspect} already, and would wait " \
                                 "for itself: #{advice(own, share)}", code: :unsupported)
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
