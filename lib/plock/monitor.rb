# frozen_string_literal: true

require_relative "errors"
require_relative "lease"
require_relative "locking"

module Plock
  # Like Ruby's Monitor, but shared by processes and machines. It uses the plain lock of a key
  # ({Locking#acquire}). The fiber that holds the lock can enter the monitor again.
  #
  # The owner is the fiber that entered, not its thread. Entering again costs no request. A forked
  # child owns none of its parent's monitors. If a fiber ends inside a monitor, its lease is
  # released when the lease is garbage collected.
  #
  # If an interrupt arrives just as {#enter} returns, the caller cannot know that it has entered.
  # {#synchronize} does not have this problem.
  #
  # @example
  #   LEDGER = Plock::Monitor.new("ledger", ttl: 10, wait: 30)
  #
  #   def transfer(from, to)
  #     LEDGER.synchronize { book(from, -1) && book(to, 1) }
  #   end
  #
  #   def book(account, sum)
  #     LEDGER.synchronize { account.add(sum) }
  #   end
  class Monitor
    # The lease of a fiber that is inside, and how many times the fiber has entered.
    Tenure = Struct.new(:lease, :depth)

    # The message of Ruby's own Monitor.
    NOT_OWNER = "current fiber not owner"

    private_constant :Tenure, :NOT_OWNER

    # @return [String, Symbol]
    attr_reader :key

    # @param key [String, Symbol]
    # @param store [Locking, nil] nil: the default store at the time of each call
    # @param options [Hash{Symbol => Object}] as for {Locking#acquire}: `ttl:`, `wait:`, `renew:`
    #   (true by default), `max_hold:`, `at_least:`, `on_lost:` (only a callable), `label:`,
    #   `replicas:`
    # @raise [ArgumentError] the key or an option is invalid, or `on_lost:` is `:raise`
    # @raise [UnsupportedError] `on_lost:` outside of the main Ractor
    def initialize(key, store: nil, **options)
      Locking::Arguments.key(key)
      @key = key.frozen? ? key : key.dup.freeze
      @store = store
      @options = { renew: true, **options }.freeze
      @direct = (options.keys - %i[ttl wait]).empty?
      # raises at once if an option is invalid
      Locking::AcquireOptions.new(Locking::StoreConfig::DEFAULTS, nil).with(**@options)
      freeze
    end

    # Waits until the lock is free, enters the monitor, runs the block, and leaves the monitor.
    #
    # @return [Object] the block's value
    # @raise [TimeoutError] another holder had the lock until `wait:` ended. The block has not run.
    # @raise [UnsupportedError] the store cannot do what an option demands, such as `replicas:`;
    #   or this fiber holds the key through {Locking#acquire}, or through another monitor, and
    #   would wait for itself
    # @raise [LeaseLost] this fiber is already inside, but its lease was lost
    # @raise [Error] the store failed
    def synchronize(&block)
      if own.nil? && @direct
        value = with_lease(&block)
        return value unless Locking::PlainCalls::UNDONE.equal?(value)
      end
      inside = left = nil
      depth = own&.depth || 0
      begin
        enter
        inside = own
        yield
      ensure
        Interrupts.complete do
          left ||= inside ? below(inside) : [own, depth]
          leave(*left)
        end
      end
    end
    alias mon_synchronize synchronize

    # Waits until the lock is free, and enters the monitor. The caller must call {#exit} once for
    # each {#enter}.
    #
    # @return [nil]
    # @raise (see #synchronize)
    def enter
      again || begin_tenure(raises: true)
      nil
    end
    alias mon_enter enter

    # Enters the monitor if there is no other holder.
    #
    # @return [Boolean] is this fiber inside now?
    # @raise [LeaseLost] this fiber is already inside, but its lease was lost
    # @raise [Error] the store failed
    def try_enter = again || begin_tenure(raises: false, wait: 0)
    alias mon_try_enter try_enter
    alias try_mon_enter try_enter

    # Undoes one {#enter}. The last {#exit} of the fiber releases the lock. If the release fails,
    # plock logs a warning, as it does at the end of a block.
    #
    # @return [nil]
    # @raise [ThreadError] this fiber is not inside
    def exit
      tenure = own or raise ThreadError, NOT_OWNER
      depth = tenure.depth - 1
      Interrupts.complete { leave(tenure, depth) }
      nil
    end
    alias mon_exit exit

    # @return [Boolean] is there a holder? Asks the store unless this fiber is inside.
    # @raise [Error] the request to the store failed
    def mon_locked? = mon_owned? || store.status(@key).held?

    # @return [Boolean] is this fiber inside? This is true even if its lease was lost. In that
    #   case {#enter} raises {LeaseLost}, and {#exit} works as usual.
    def mon_owned? = !own.nil?

    # Raises, because a monitor among processes has no condition variables.
    #
    # @raise [UnsupportedError]
    def new_cond
      raise UnsupportedError, "a Plock::Monitor has no condition variables"
    end

    # Raises, as {#new_cond} does.
    #
    # @raise [UnsupportedError]
    def wait_for_cond(*) = new_cond

    # @return [String]
    def inspect = "#<#{self.class} #{@key.inspect}>"

    private

    def store = @store || Plock.store

    def tenures
      Thread.current[:plock_monitors] ||= {}.compare_by_identity
    end

    def own
      tenure = tenures[self]
      tenure unless tenure.nil? || tenure.lease.hold.inherited?
    end

    # Enters the monitor for one block. The store releases the lease at the end of the block.
    def with_lease
      store = self.store
      store.with_lease(
        @key, nil, nil, @options.fetch(:ttl, Locking::USUAL), @options.fetch(:wait, Locking::USUAL),
        true, true
      ) do |lease|
        inside = left = nil
        inside = tenures[self] = Tenure.new(lease, 1)
        yield
      ensure
        Interrupts.complete do
          next tenures.delete(self) unless inside

          left ||= below(inside)
          inside.equal?(left.first) ? leave_lease(store, *left) : leave(*left)
        end
      end
    end

    # Like {leave}, but the store releases the lease at the end of the block. If the fiber has
    # entered more times inside the block than it has left, the hold moves to a new lease, which
    # outlasts the block.
    def leave_lease(store, tenure, depth)
      tenure.depth = depth
      return tenures.delete(self) if depth.zero?

      Locking::OwnHolds.add(store, tenure.lease = tenure.lease.move)
    end

    def again
      return unless (tenure = own)

      tenure.lease.check!
      tenure.depth += 1
      true
    end

    # Makes the Lease object before the store grants the hold, so that an interrupt cannot lose the
    # hold.
    #
    # @return [Boolean] has this fiber entered?
    def begin_tenure(raises:, **options)
      store = self.store
      acquire_options = store.new_options(nil).with(**@options, **options)
      lease = Lease.new(@key, acquire_options)
      entered = ->(_lease) do
        tenures[self] = Tenure.new(lease, 1)
        Locking::OwnHolds.add(store, lease)
      end
      !Locking::Acquisition.handing_out(entered, -> { give_back(lease) }) do
        store.acquiring(
          @key, store.config.store_key(@key), acquire_options, nil, raises: raises, lease: lease
        )
      end.nil?
    end

    def give_back(lease)
      tenures.delete(self)
      Locking::OwnHolds.delete(lease)
      lease.finish
    end

    # @param tenure [Tenure, nil] nil: there is nothing to leave
    # @param depth [Integer] the fiber's new depth; ignored if the fiber's depth is lower already
    def leave(tenure, depth)
      return unless tenure

      tenure.depth = [tenure.depth, depth].min
      give_back(tenure.lease) if tenure.depth.zero?
    end

    # Finds the fiber's tenure, and the depth that remains after the end of a block. A forked child
    # that reaches the end of its parent's block has nothing to leave.
    #
    # @return [Array(Tenure, Integer)] for {leave}
    def below(inside)
      return [nil, 0] if inside.lease.hold.inherited?

      tenure = own or raise ThreadError, NOT_OWNER
      [tenure, tenure.depth - 1]
    end
  end
end
