# frozen_string_literal: true

module Plock
  module Metrics
    # Keeps the number of a label's values low. The first values keep their names; all further ones
    # are counted together.
    #
    # @api private
    class Labels
      # Stands for all values beyond the limit.
      OTHER = "other"

      # @param limit [Integer] of values with a name of their own
      def initialize(limit)
        @limit = limit
        @known = {}
        @lock = BriefMutex.new
      end

      # @param value [String, nil]
      # @return [String] the value itself, or {OTHER}; empty for nil
      def of(value)
        value = value.to_s
        @known[value] || @lock.synchronize do
          @known[value] ||= @known.size < @limit ? value.dup.freeze : (return OTHER)
        end
      end
    end
  end
end
