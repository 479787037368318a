# frozen_string_literal: true

require_relative "../report"

module Torture
  module Stores
    # The report of a round on a store in Ruby.
    class Report < Torture::Report
      NAMES = { hang: :stuck, unreleased: :failure }.freeze

      def initialize(seed, witness, course, kind)
        super(seed, witness, course)
        @kind = kind
        witness.findings.each { |finding| finding.kind = NAMES.fetch(finding.kind, finding.kind) }
      end

      private

      LOOKED_AT = { leases: "leases", fences: "pairs of fences", budgets: "budgets",
                    waiters: "undisturbed waiters",
                    checks: "looks at a lease", inventories: "inventories", patience: "waits",
                    handovers: "dumps", releases: "releases where nothing was wrong" }.freeze

      def figures
        blows = @course.pack.to_h { |kind,| [kind, kind.to_s] }
        calls = "#{@witness.counts[:calls]} calls: #{list(OUTCOMES)}"
        ["#{@kind.name}, seed #{@seed}, course #{@course.name}: #{calls}",
         "  blows: #{list(blows)}",
         "  looked at: #{list(LOOKED_AT)}",
         "  longest wait for a free key: #{ms(@witness.longest_wait)} ms",
         "  stood still: #{delays}"]
      end
    end
  end
end
