# frozen_string_literal: true

module Plock
  # The connections of a store in this process at one moment, see {Locking#pool_status}. A store
  # on a Redis Cluster counts its connections to all nodes that it has used.
  #
  # * `size` [Integer]: how many connections the store may have
  # * `used` [Integer]: connections that calls are using or opening; releases and renewals can
  #   open connections beyond `size`
  # * `idle` [Integer]: connections that are open, and not in use
  # * `waiting` [Integer]: calls now waiting for a connection
  # * `waits` [Integer]: how many calls have waited for a connection since the process began
  #
  # @example
  #   status = Plock.store.pool_status
  #   warn "#{status.waiting} calls wait for a connection" if status&.waiting&.positive?
  PoolStatus = Struct.new(:size, :used, :idle, :waiting, :waits)
end
