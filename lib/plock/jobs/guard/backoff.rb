# frozen_string_literal: true

module Plock
  module Guard
    # Determines how long a job is postponed after a conflict. The delay starts at one second,
    # doubles with each conflict, and is one minute at most. A random part is added, so that jobs
    # that were refused together do not return together.
    #
    # @api private
    module Backoff
      MOST = 60.0
      JITTER = 0.25

      # @param times [Integer] number of earlier conflicts
      # @return [Float] seconds
      def self.delay(times)
        longest = MOST / (1 + JITTER)
        [2.0**[times, 10].min, longest].min * (1 + (rand * JITTER))
      end
    end
  end
end
