# frozen_string_literal: true

require_relative "../support/floor"
require_relative "../support/measuring"
require_relative "../support/part"
require_relative "../support/targets"

module Bench
  # How fast is a lock without contention?
  class Pairs < Part
    NAME = "pairs"
    TITLE = "Uncontended pairs"

    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "over" => ->(r) { { tcp: "TCP", unix: "Unix" }.fetch(r.contestant.transport) },
      "pairs/s" => ->(r) { r.rate.round.to_s },
      "min–max" => ->(r) { r.rates.minmax.map(&:round).join("–") },
      "of floor" => ->(r) { format("%.2f", r.ratio) },
      "p50 µs" => ->(r) { format("%.1f", r.p50) },
      "p99 µs" => ->(r) { format("%.1f", r.p99) },
      "p99 of floor" => ->(r) { format("%.2f", r.p99_ratio) },
      "objects" => ->(r) { r.objects ? Table.number(r.objects) : "–" },
      "commands" => ->(r) { Table.number(r.commands) },
      "growth KiB" => ->(r) { r.growth ? (r.growth / 1024).to_s : "–" }
    }.freeze

    private

    def measure(placement, &progress)
      return [] if @contestants.empty?

      results = Floor.compile do |floor|
        Measuring.new(@server, @contestants, floor, @options).run(
          placement, million: million?, &progress
        )
      end
      results.each { |result| @versions.merge!(result.versions) }
    end

    # Memory growth does not depend on which CPU cores the processes run on, so it is measured
    # only in the first placement.
    def million? = @options.million && !@watched && (@watched = true)

    def columns(results) =
      COLUMNS.reject { |name, _| name == "growth KiB" && results.none?(&:growth) }

    def checks(results, placement) = Targets.new(placement, results).checks
  end
end
