# frozen_string_literal: true

require_relative "../../support/contest"
require_relative "section"

module Bench
  class Growth < Part
    # Does a section take longer if more processes want the same key?
    class Processes < Section
      TITLE = "Processes on one key"
      STEP = "processes"
      STEPS = [1, 8, 64].freeze

      LONGEST = 3.0 # seconds of contention, or --contest if that is less

      FIGURES = {
        sections_per_s: Figure.new(title: "sections/s", digits: 0, plot: "sections"),
        section_us: Figure.new(title: "µs/section", digits: 1, least: 5),
        least_of_most: Figure.new(title: "least/most", digits: 3),
        longest_wait_ms: Figure.new(title: "longest wait ms", digits: 1)
      }.freeze

      private

      def measure(placement)
        each_of(@contestants, placement) do |one|
          rows(one) do |n|
            yield "#{one.name}, #{n} processes"
            start([one], placement, each: n) { |processes| contest(processes) }
          end
        end
      end

      def contest(processes)
        seconds = [@options.contest, LONGEST].min
        shares = Shares.new(Contest.run(processes, fresh_key, seconds), seconds)
        raise Failed, "no process entered" if shares.total.zero?

        {
          sections_per_s: shares.rate, section_us: 1e6 / shares.rate,
          least_of_most: shares.evenness, longest_wait_ms: shares.longest_ms
        }
      end
    end
  end
end
