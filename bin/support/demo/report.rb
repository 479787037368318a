# frozen_string_literal: true

require "terminal-table"

module Demo
  # The results of the contest as tables.
  class Report
    NS_PER_MS = 1_000_000.0

    def initialize(result)
      @result = result
      @sections = result.sections
    end

    def to_s = [per_process, in_all].join("\n")

    # True if no sections overlapped, no worker failed, and the workers continued after the kill.
    def sound? = overlaps.zero? && !recovery_ms.nil? && @result.failed.empty?

    private

    def per_process
      of = @sections.group_by(&:worker)
      rows = @result.pids.map do |number, pid|
        waits = of.fetch(number, []).map(&:waited_ns)
        [number, pid, waits.size, milliseconds(waits.max), fate(number)]
      end
      table(["process", "pid", "sections", "longest wait", ""], rows, numbers: 0..3)
    end

    def in_all
      waits = @sections.map(&:waited_ns).sort
      table(
        ["in all", ""],
        [
          ["sections", @sections.size],
          ["overlaps seen", overlaps],
          ["wait, p50", milliseconds(quantile(waits, 0.50))],
          ["wait, p99", milliseconds(quantile(waits, 0.99))],
          ["wait, longest", milliseconds(waits.last)],
          [
            "from the kill to the next section",
            recovery_ms ? format("%.1f ms (ttl %d s)", recovery_ms, Contest::TTL_S) : "never"
          ]
        ],
        numbers: 1..1
      )
    end

    def fate(number)
      return "killed while inside" if number == @result.killed

      "FAILED" if @result.failed.include?(number)
    end

    def overlaps = @sections.count(&:overlapped)

    def recovery_ms
      return unless @result.killed_ns

      following = @sections.map(&:entered_ns).select { |entered| entered > @result.killed_ns }.min
      (following - @result.killed_ns) / NS_PER_MS if following
    end

    def quantile(sorted, share) = sorted[((sorted.size - 1) * share).round]

    def milliseconds(nanoseconds) = nanoseconds && format("%.1f ms", nanoseconds / NS_PER_MS)

    def table(headings, rows, numbers:)
      Terminal::Table.new(headings: headings, rows: rows).tap do |table|
        numbers.each { |column| table.align_column(column, :right) }
      end
    end
  end
end
