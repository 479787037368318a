# frozen_string_literal: true

require_relative "../support/contest"
require_relative "../support/part"

module Bench
  # Older and newer processes want one key, as during the migration of an application. Does either
  # side starve the other?
  class Mixed < Part
    NAME = "mixed"
    TITLE = "4 older and 4 newer processes on one key"

    PROCESSES = 4 # on each side

    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "sections/s" => ->(r) { r.shares.rate.round.to_s },
      "share" => ->(r) { format("%.1f %%", r.share * 100) },
      "least" => ->(r) { r.shares.least.to_s },
      "most" => ->(r) { r.shares.most.to_s },
      "longest wait ms" => ->(r) { format("%.1f", r.shares.longest_ms) }
    }.freeze

    # share: the side's share of all sections.
    Result = Struct.new(:contestant, :share, :shares) do
      def to_h = { contestant: contestant.name, share: share, **shares.to_h }
    end

    private

    def measure(placement)
      sides = contenders.select { |one| one.plock? || one.name == "older" }
      return [] unless sides.size == 2

      attempt("older and newer", placement) do
        yield "older and newer"
        start(sides, placement, each: PROCESSES) { |processes| contest(processes) }
      end
    end

    def contest(processes)
      shares = Contest.run(processes, fresh_key, @options.contest)
      shares.group_by(&:contestant).map do |contestant, own|
        Result.new(
          contestant, own.sum(&:sections).fdiv(shares.sum(&:sections)),
          Shares.new(own, @options.contest)
        )
      end
    end

    def columns(_) = COLUMNS

    def checks(results, _)
      results.map do |result|
        Check.new(
          "every process with #{result.contestant.label} gets in",
          "the least #{result.shares.least} times", result.shares.least.positive?
        )
      end
    end
  end
end
