# frozen_string_literal: true

require_relative "locking/own_holds"
require_relative "locking/acquisition"

module Plock
  # Process.daemon forks, and the parent ends at once, without running its blocks to their end. So
  # plock hands the leases of those blocks over to the daemon. It also hands over the leases of the
  # monitors that the caller has entered. In the daemon, each lease has a new token and a greater
  # fence, as after {Lease#dump} and {Locking#adopt}. A lease that was lost in the parent is lost in
  # the daemon, too. If the parent was not notified of the loss, the daemon is.
  #
  # Background releases stay with the parent. Before the fork, the parent waits for them, for at
  # most as long as an exiting process waits for them.
  #
  # @api private
  #
  # @!method self.settle
  #   Waits for the background releases, for at most 250 ms.
  #   @api private
  module Daemon
    # @raise [UnsupportedError] a lease cannot be handed over; nothing was forked
    # @raise [Error] in the daemon: the request to the store failed, and the lease is not valid
    #   there
    def daemon(...)
      held = Locking::OwnHolds.leases
      return Daemon.settle && super if held.empty?

      Interrupts.defer do
        forked = false
        begin
          held.each { |_store, lease| lease.hand_on }
          Daemon.settle
          super.tap { forked = true }
        ensure
          # after the fork, this runs only in the daemon; if the fork failed, it runs in the parent
          failure = Interrupts.complete { Daemon.go_on(held) }
          raise failure if failure && forked
        end
      end
    end

    # Takes each lease over in this process, even if the takeover of an earlier lease failed.
    #
    # @return [Error, nil] the first failure of a store
    def self.go_on(held)
      failures = held.filter_map do |store, lease|
        lease.go_on(store)
        nil
      rescue Error => e
        e
      end
      failures.first
    end
  end

  Process.singleton_class.prepend(Daemon)
end
