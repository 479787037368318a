# frozen_string_literal: true

module Plock
  # In the place of a store's hold: of a lease that was lost on its way into a daemon. The hold
  # itself is the parent's.
  #
  # @api private
  class LostHold
    # @return [Object] as the store's hold says it
    attr_reader :id, :key, :token, :fence, :ttl, :mode, :acquired_at, :valid_until

    # @param hold [Object] the parent's
    def initialize(hold)
      @id, @key, @token, @fence, @ttl, @mode =
        hold.id,
        hold.key,
        hold.token,
        hold.fence,
        hold.ttl,
        hold.mode
      @acquired_at, @valid_until = hold.acquired_at, hold.valid_until
      @pid = Process.pid
    end

    # @return [Boolean]
    def inherited? = @pid != Process.pid

    # @return [Boolean]
    def valid? = false

    # @return [Boolean]
    def lost? = !inherited?

    # @return [false] it is not ours any more, and so do the others
    def extend(_ttl) = false

    # @return [false]
    def downgrade = false

    # @return [false]
    def dump = false

    # @return [false]
    def release(_keep) = false
  end
end
