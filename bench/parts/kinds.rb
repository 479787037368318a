# frozen_string_literal: true

require_relative "pairs"

module Bench
  # How much more does it cost to lock several keys at once, or to share a lock?
  class Kinds < Pairs
    NAME = "kinds"
    TITLE = "Uncontended pairs of several keys, or with several holders"
    FAMILY = :kinds

    COLUMNS =
      Pairs::COLUMNS
        .slice("contestant", "pairs/s", "min–max", "p50 µs", "p99 µs", "objects", "commands")
        .to_a
        .insert(3, ["time of one key's", ->(r) { format("%.2f", 1 / r.ratio) }])
        .to_h
        .freeze

    # The targets: at most this multiple of the time for one key.
    TIMES = {
      "kinds-try" => 1.2, "kinds-monitor" => 1.2, "kinds-read" => 1.2, "kinds-write" => 1.2,
      "kinds-semaphore" => 1.2, "kinds-all-3" => 1.5
    }.freeze

    private

    def million? = false
    def columns(_) = COLUMNS

    def checks(results, _)
      results.filter_map do |result|
        most = TIMES[result.contestant.name] or next
        Check.new(
          "#{result.contestant.name} at most #{most} times as long as one key",
          format("%.2f", 1 / result.ratio), 1 / result.ratio <= most
        )
      end
    end
  end
end
