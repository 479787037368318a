# frozen_string_literal: true

module Bench
  # Results as a Markdown table whose columns also line up on a terminal.
  class Table
    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "over" => ->(r) { { tcp: "TCP", unix: "Unix" }.fetch(r.contestant.transport) },
      "pairs/s" => ->(r) { r.rate.round.to_s },
      "min–max" => ->(r) { r.rates.minmax.map(&:round).join("–") },
      "of floor" => ->(r) { format("%.2f", r.ratio) },
      "p50 µs" => ->(r) { format("%.1f", r.p50) },
      "p99 µs" => ->(r) { format("%.1f", r.p99) },
      "p99 of floor" => ->(r) { format("%.2f", r.p99_ratio) },
      "objects" => ->(r) { r.objects ? number(r.objects) : "–" },
      "commands" => ->(r) { number(r.commands) },
      "growth KiB" => ->(r) { r.growth ? (r.growth / 1024).to_s : "–" }
    }.freeze
    LEFT = ["contestant", "over"].freeze

    def self.number(value) = (value % 1).abs < 0.005 ? value.round.to_s : format("%.2f", value)

    def initialize(results)
      @results = results
    end

    def to_s
      columns = COLUMNS.reject { |name, _| name == "growth KiB" && @results.none?(&:growth) }
      names = columns.keys
      rows = @results.map { |result| columns.values.map { |cell| cell.call(result) } }
      widths = [names, *rows].transpose.map { |cells| cells.map(&:length).max }
      rule = names.zip(widths).map { |name, width| left?(name) ? "-" * width : "#{"-" * (width - 1)}:" }
      [line(names, names, widths), line(rule, names, widths), *rows.map { |row| line(row, names, widths) }].join("\n")
    end

    private

    def line(cells, names, widths)
      aligned = cells.each_with_index.map { |cell, i| left?(names[i]) ? cell.ljust(widths[i]) : cell.rjust(widths[i]) }
      "| #{aligned.join(" | ")} |"
    end

    def left?(name) = LEFT.include?(name)
  end
end
