# frozen_string_literal: true

module Bench
  # Results as a Markdown table whose columns also line up on a terminal. columns: heading => a
  # callable that receives a result and returns the text of its cell.
  class Table
    LEFT = ["command", "contestant", "over", "released by", "entered by"].freeze

    def self.number(value) = (value % 1).abs < 0.005 ? value.round.to_s : format("%.2f", value)

    def initialize(columns, results)
      @names = columns.keys
      @rows = results.map { |result| columns.values.map { |text| text.call(result) } }
    end

    def to_s
      widths = [@names, *@rows].transpose.map { |cells| cells.map(&:length).max }
      rule =
        @names.zip(widths).map { |name, width| left?(name) ? "-" * width : "#{"-" * (width - 1)}:" }
      [line(@names, widths), line(rule, widths), *@rows.map { |row| line(row, widths) }].join("\n")
    end

    private

    def line(cells, widths)
      aligned =
        cells.each_with_index.map do |cell, i|
          left?(@names[i]) ? cell.ljust(widths[i]) : cell.rjust(widths[i])
        end
      "| #{aligned.join(" | ")} |"
    end

    def left?(name) = LEFT.include?(name)
  end
end
