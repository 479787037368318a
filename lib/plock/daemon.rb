# frozen_string_literal: true

require_relative "locking/own_holds"
require_relative "locking/acquisition"

module Plock
  # Process.daemon forks, and the parent ends at once, without running its blocks to their end. So
  # the leases of those blocks, and of the monitors that the caller is inside of, go over to the
  # daemon, as by {Lease#dump} and {Locking#adopt}: with another token, and a greater fence. One
  # that was lost is lost in the daemon, too, which is told of it where the parent was not.
  #
  # Background releases stay with the parent, which has the time before the fork that it has at the
  # end of a process.
  #
  # @api private
  #
  # @!method self.settle
  #   Waits until what is released in the background is done, 250 ms at most.
  #   @return [void]
  #   @api private
  module Daemon
    # @raise [UnsupportedError] a lease cannot be handed over; nothing was forked
    # @raise [Error] in the daemon: the store could not be asked, and the lease is not valid there
    def daemon(...)
      held = Locking::OwnHolds.leases
      return Daemon.settle && super if held.empty?

      Thread.handle_interrupt(Locking::Acquisition.mask) do
        handed = []
        forked = false
        begin
          held.each { |store, lease| Daemon.hand_on(store, lease, handed) }
          Daemon.settle
          super.tap { forked = true }
        ensure
          failure = Daemon.go_on(handed) # even if there is no daemon
          raise failure if failure && forked
        end
      end
    end

    # A lease that another thread is releasing is left to that thread.
    #
    # @param handed [Array] as {go_on} has it
    # @raise [UnsupportedError] the lease cannot be handed over
    def self.hand_on(store, lease, handed)
      rest = lease.valid? && lease.hand_on
      handed << [store, lease, rest] if rest || lease.lost?
    end

    # Each lease has its turn, whatever became of those before it.
    #
    # @param handed [Array] of stores, leases, and what {Lease#hand_on} returned, or false: it was
    #   lost
    # @return [Error, nil] why the first store could not be asked that could not
    def self.go_on(handed)
      failures = handed.filter_map do |store, lease, rest|
        lease.go_on(store, rest)
        nil
      rescue Error => e
        e
      end
      failures.first
    end
  end

  Process.singleton_class.prepend(Daemon)
end
