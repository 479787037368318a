# frozen_string_literal: true

module Plock
  module Guard
    # How long a job is put off after a conflict: a second at first, twice as long each time, a
    # minute at most. A random part is added, so that jobs that were refused together do not come
    # back together.
    #
    # @api private
    module Backoff
      MOST = 60.0
      JITTER = 0.25

      # @param times [Integer] conflicts before this one
      # @return [Float] seconds
      def self.delay(times)
        longest = MOST / (1 + JITTER)
        [2.0**[times, 10].min, longest].min * (1 + (rand * JITTER))
      end
    end
  end
end
