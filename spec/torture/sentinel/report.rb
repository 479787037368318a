# frozen_string_literal: true

require_relative "../report"

module Torture
  module Sentinel
    # The report of a round with failovers.
    class Report < Torture::Report
      WINDOWS = { failovers: "failovers", silent: "while a sentinel was silent or away",
                  unready: "blows left out, because the group was not whole",
                  excused: "leases that overlapped inside the documented window",
                  ordered: "fences compared with those of earlier leases" }.freeze

      private

      def figures
        [*super, "  #{list(WINDOWS)}; named after #{@witness.counts[:longest_ms]} ms at most"]
      end

      def suffered(call, start)
        to = call.ended || call.entered || call.asked
        near = @witness.history.chronicle.failovers.select do |one|
          one.from < to + SECOND && call.asked < one.over + SECOND
        end
        moments = near.map do |one|
          times = %i[from promoted named over].map { |name| "#{name} #{ms(one[name] - start)}" }
          ", failover #{times.join(" ")}"
        end
        super + moments.join
      end
    end
  end
end
