# frozen_string_literal: true

module Plock
  # The clock that leases are dated on: it runs while the machine is suspended, if the system has
  # such a clock.
  #
  # @api private
  module Clock
    ID =
      Process.const_defined?(:CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC

    # A lease ends earlier than its store says: for the drift of two machines' clocks, by this part
    # of the TTL, and for rounding, by these seconds.
    DRIFT = 0.01
    SLACK_S = 0.002

    # @param ttl [Float] seconds
    # @return [Float] seconds by which a lease with this TTL ends earlier
    def self.margin(ttl) = (ttl * DRIFT) + SLACK_S

    # @return [Float] seconds
    def self.now = Process.clock_gettime(ID)

    # @return [Float] seconds since 1970 by this host's clock on the wall, which may be set while a
    #   lease is held; for times that other processes read
    def self.wall = Process.clock_gettime(Process::CLOCK_REALTIME)
  end
end
