# frozen_string_literal: true

require_relative "../hold"

module Plock
  class Store
    # @api private
    module Adopting
      private

      # @param dump [String] of {Hold#dump}
      # @param ttl [Float, nil] seconds from now on; nil: what it was granted for
      # @yieldparam hold [Hold] as soon as it is ours
      # @return [Hold, nil] nil: it was not that lease's any more
      # @raise [ArgumentError] not the dump of a hold
      def adopt_hold(dump, renew, max_hold, watch, ttl = nil, &given)
        key, value, fence, granted, share = Hold.read(dump)
        adopt_owner(key, value, fence, ttl || granted, renew, max_hold, watch, share, &given)
      end
    end
  end
end
