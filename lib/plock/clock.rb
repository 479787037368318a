# frozen_string_literal: true

module Plock
  # The clock by which leases are timed. On systems with CLOCK_BOOTTIME, it keeps running while the
  # machine is suspended.
  #
  # @api private
  module Clock
    ID =
      Process.const_defined?(:CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC

    # A lease ends earlier in this process than in its store. The margin is DRIFT, a fraction of the
    # TTL, for the drift between two machines' clocks, plus SLACK_S, in seconds, for rounding.
    DRIFT = 0.01
    SLACK_S = 0.002

    # @param ttl [Float] seconds
    # @return [Float] seconds by which a lease with this TTL ends earlier
    def self.margin(ttl) = (ttl * DRIFT) + SLACK_S

    # @return [Float] seconds
    def self.now = Process.clock_gettime(ID)

    # @return [Float] seconds since 1970 on this host's wall clock, for times that other processes
    #   read. No lease is timed by this clock, because it may be set while a lease is held.
    def self.wall = Process.clock_gettime(Process::CLOCK_REALTIME)
  end
end
