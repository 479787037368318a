# frozen_string_literal: true

require_relative "witness"

module Torture
  # The report of a round.
  class Report
    EXAMPLES = 5

    def initialize(seed, witness, course)
      @seed = seed
      @course = course
      @witness = witness
    end

    def sound? = @witness.findings.empty?

    def to_s
      [*figures, *findings].join("\n")
    end

    private

    OUTCOMES = {
      entered: "got it", refused: "refused", failed: "failed", interrupted: "interrupted",
      cut_short: "died", from_children: "from forked children"
    }.freeze
    INSIDE = { forks: "forks", compact: "compactions" }.freeze
    LOOKED_AT = {
      leases: "leases", fences: "pairs of fences", budgets: "budgets",
      waiters: "undisturbed waiters", once: "pairs of what is done once",
      checks: "looks at a lease", inventories: "inventories",
      releases: "releases on a server that was well", remains: "calls that may leave nothing",
      handovers: "dumps", lanes: "lanes side by side"
    }.freeze

    def figures
      blows = @course.pack.to_h { |kind,| [kind, kind.to_s.tr("_", " ")] }
      ["seed #{@seed}, course #{@course.name}: #{@witness.counts[:calls]} calls: #{list(OUTCOMES)}",
       "  blows: #{list(blows)}; inside blocks: #{list(INSIDE)}",
       "  looked at: #{list(LOOKED_AT)}",
       "  stood still: #{delays}"]
    end

    # A line about the longest delay of each processor.
    def delays
      longest = @witness.history.delays.processors
      return "no processor" if longest.empty?

      longest.sort.map { |name, span| "#{name} for #{ms(span)} ms" }.join(", ")
    end

    def list(names) = names.map { |what, name| "#{@witness.counts[what]} #{name}" }.join(", ")

    def findings
      @witness.findings.group_by(&:kind).flat_map do |kind, all|
        texts =
          all.first(EXAMPLES).map { |finding| "    #{finding.text.strip.gsub("\n", "\n      ")}" }
        ["  #{kind.to_s.upcase}: #{all.size}", *texts, *details(all.first.calls)]
      end
    end

    # The events of these calls, in milliseconds since the first event.
    def details(calls)
      start = calls.map(&:asked).min
      calls.map { |call| "      #{call}: #{moments(call, start)}#{suffered(call, start)}" }
    end

    def moments(call, start)
      moments =
        %i[asked queued waited entered left ended valid_until].filter_map do |name|
          [name, call[name]] if call[name]
        end
      list = moments.sort_by(&:last).map { |name, at| "#{name} #{ms(at - start)}" }
      "wait #{ms(call.wait)}, ttl #{ms(call.ttl)}: #{list.join(", ")} (#{call.outcome || "died"})"
    end

    def suffered(call, start)
      to = call.ended || call.entered || call.asked
      blows = @witness.history.suffered(call, call.asked - SECOND, to)
      blows.map { |what, from, over| ", #{what} #{ms(from - start)}..#{ms(over - start)}" }.join
    end

    def ms(span) = format("%.1f", span.fdiv(MILLISECOND))
  end
end
