# frozen_string_literal: true

require_relative "../hold"

module Plock
  class Store
    # @api private
    module Adopting
      private

      # @param dump [String] of {Hold#dump}
      # @return [Hold, nil] nil: it was not that lease's any more
      # @raise [ArgumentError] not the dump of a hold
      def adopt_hold(dump, renew, max_hold, watch)
        key, value, fence, ttl = Hold.read(dump)
        adopt_owner(key, value, fence, ttl, renew, max_hold, watch, nil)
      end
    end
  end
end
