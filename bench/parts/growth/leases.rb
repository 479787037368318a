# frozen_string_literal: true

require_relative "../../support/renewals"
require_relative "section"

module Bench
  class Growth < Part
    # How many leases can one process renew?
    class Leases < Section
      TITLE = "Renewed leases of one process"
      STEP = "leases"
      STEPS = [1, 100, 1_000, 10_000].freeze

      CPU = 4.0    # seconds in which each lease is renewed at least once
      EVENTS = 7.0 # seconds in which each lease is renewed at least twice

      FIGURES = {
        cpu_percent: Figure.new(title: "CPU %", digits: 2, plot: "renewals"),
        renewal_us: Figure.new(title: "CPU µs/renewal", digits: 1, least: 50),
        late_p50_ms: Figure.new(title: "late p50 ms", digits: 2),
        late_p99_ms: Figure.new(title: "late p99 ms", digits: 2, least: 5, plot: "lateness"),
        late_most_ms: Figure.new(title: "latest ms", digits: 2),
        renewals: Figure.new(title: "renewals seen", digits: 0)
      }.freeze

      private

      def measure(placement)
        each_of(@contestants, placement) do |one|
          growers(one, placement, 1) do |(grower)|
            rows(one) do |n|
              yield "#{one.name}, #{n} leases"
              step(n, *grower.renew(n, CPU, EVENTS).values_at("cpu_ns", "late_ns"))
            end
          end
        end
      end

      # cpu: the CPU time in nanoseconds. late: how late each renewal was, in nanoseconds, sorted.
      def step(leases, cpu, late)
        raise Failed, "no lease was renewed" if late.empty?

        {
          cpu_percent: cpu / CPU / 1e7,
          renewal_us: cpu / 1e3 / (leases * CPU * 1e9 / Renewals::PERIOD),
          late_p50_ms: late[late.size / 2] / 1e6, late_p99_ms: late[late.size * 99 / 100] / 1e6,
          late_most_ms: late.last / 1e6, renewals: late.size
        }
      end
    end
  end
end
