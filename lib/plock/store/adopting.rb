# frozen_string_literal: true

require_relative "../hold"

module Plock
  class Store
    # @api private
    module Adopting
      private

      # @param dump [String] of {Hold#dump}
      # @param ttl [Float, nil] seconds from now on; nil: what it was granted for
      # @param heir [String, nil] the dump of a lease whose token it is to have from now on; nil: a fresh one
      # @yieldparam hold [Hold] as soon as it is ours
      # @return [Hold, nil] nil: it was not that lease's any more
      # @raise [ArgumentError] not the dump of a hold
      def adopt_hold(dump, renew, max_hold, watch, ttl = nil, heir = nil, &given)
        key, value, _fence, granted, share = Hold.read(dump)
        adopt_owner(key, value, ttl || granted, renew, max_hold, watch, share, heir && Hold.read(heir)[1], &given)
      end
    end
  end
end
