# frozen_string_literal: true

require_relative "locking/own_holds"
require_relative "locking/acquisition"

module Plock
  # Process.daemon forks, and the parent ends at once, without running its blocks to their end. So
  # plock hands the leases of those blocks over to the daemon. It also hands over the leases of
  # the monitors that the caller has entered. As with {Lease#dump} and {Locking#adopt}, each lease
  # then has a new token and a greater fence. A lease that was lost is also lost in the daemon. If
  # the parent was not notified of the loss, the daemon is.
  #
  # Background releases stay with the parent. Before the fork, the parent waits for them as long
  # as a process waits for them when it exits.
  #
  # @api private
  #
  # @!method self.settle
  #   Waits for the background releases, for at most 250 ms.
  #   @return [void]
  #   @api private
  module Daemon
    # @raise [UnsupportedError] a lease cannot be handed over; nothing was forked
    # @raise [Error] in the daemon: the request to the store failed, and the lease is not valid
    #   there
    def daemon(...)
      held = Locking::OwnHolds.leases
      return Daemon.settle && super if held.empty?

      Interrupts.defer do
        handed = []
        forked = false
        begin
          held.each { |store, lease| Daemon.hand_on(store, lease, handed) }
          Daemon.settle
          super.tap { forked = true }
        ensure
          failure = Daemon.go_on(handed) # runs in the parent if no daemon was forked
          raise failure if failure && forked
        end
      end
    end

    # Hands one lease over. If another thread is releasing the lease, this does nothing.
    #
    # @param handed [Array] see {go_on}
    # @raise [UnsupportedError] the lease cannot be handed over
    def self.hand_on(store, lease, handed)
      rest = lease.valid? && lease.hand_on
      handed << [store, lease, rest] if rest || lease.lost?
    end

    # Continues each lease in this process, even if an earlier lease failed.
    #
    # @param handed [Array] for each lease its store, the lease, and the result of
    #   {Lease#hand_on}, or false if the lease was lost
    # @return [Error, nil] the first failure of a store
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
