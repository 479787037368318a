# frozen_string_literal: true

module Plock
  # Replaces the hold of a lease that was lost during the hand-over to a daemon, because the hold
  # itself belongs to the parent.
  #
  # @api private
  class LostHold
    # @return [Object] the same value as in the parent's hold
    attr_reader :id, :key, :token, :fence, :ttl, :mode, :acquired_at, :valid_until

    # @param hold [Object] the parent's hold
    def initialize(hold)
      @id, @key, @token, @fence, @ttl, @mode =
        hold.id, hold.key, hold.token, hold.fence, hold.ttl, hold.mode
      @acquired_at, @valid_until = hold.acquired_at, hold.valid_until
      @pid = Process.pid
    end

    def inherited? = @pid != Process.pid

    def valid? = false

    def lost? = !inherited?

    # @return [String] without the token
    def inspect = "#<#{self.class} key=#{@key.inspect} fence=#{@fence} not valid>"

    # @return [false] the lease is lost; the methods below return the same
    def extend(_ttl) = false

    def downgrade = false

    def leave = false

    def release(_keep) = false

    def release_trailing(_keep) = false
  end
end
