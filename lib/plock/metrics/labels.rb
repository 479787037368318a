# frozen_string_literal: true

module Plock
  module Metrics
    # Limits the number of a label's values. The first values keep their names. All further values
    # become {OTHER}.
    #
    # @api private
    class Labels
      # Stands for all values beyond the limit.
      OTHER = "other"

      # @param limit [Integer] how many values keep their names
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
