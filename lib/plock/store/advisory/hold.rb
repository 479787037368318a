# frozen_string_literal: true

require_relative "../grant_hold"

module Plock
  class Store
    class Advisory
      # @api private
      class Hold < GrantHold
        BOUND = "an advisory lock cannot be handed over: it belongs to a connection"

        # @raise [UnsupportedError]
        def dump
          raise UnsupportedError.new(BOUND, code: :unsupported)
        end
      end
    end
  end
end
