# frozen_string_literal: true

module Plock
  class Store
    # Pauses between attempts, growing from `first` to `longest`. Each pause is shortened at
    # random by up to a half, so that callers that began together do not stay in step.
    #
    # @api private
    class Backoff
      # @param first [Float] seconds
      # @param longest [Float] seconds
      # @param factor [Float] the ratio of each pause to the previous pause
      def initialize(first, longest, factor = 1.5)
        @first = first
        @longest = longest
        @factor = factor
        reset
      end

      def reset
        @pause = @first
      end

      def next
        pause = @pause * rand(0.5..1.0)
        @pause = [@pause * @factor, @longest].min
        pause
      end
    end
  end
end
