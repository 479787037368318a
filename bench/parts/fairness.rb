# frozen_string_literal: true

require_relative "../support/contest"
require_relative "../support/part"

module Bench
  # How much of its speed does a lock keep if many processes want it? Does each process get an equal
  # share?
  class Fairness < Part
    NAME = "fairness"
    TITLE = "8 processes on one key"

    PROCESSES = 8
    THREADS = 1 # in each process
    ALONE = 1.0   # seconds for one process alone, before the contest and after it
    WARM_UP = 0.2 # seconds for one process alone

    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "alone/s" => ->(r) { r.alone.round.to_s },
      "sections/s" => ->(r) { r.shares.rate.round.to_s },
      "of alone" => ->(r) { format("%.2f", r.of_alone) },
      "least" => ->(r) { r.shares.least.to_s },
      "most" => ->(r) { r.shares.most.to_s },
      "least/most" => ->(r) { format("%.3f", r.shares.evenness) },
      "longest wait ms" => ->(r) { format("%.1f", r.shares.longest_ms) }
    }.freeze

    # The targets: the lowest rate, as a share of the rate that one process reaches alone; the least
    # evenness; and the longest wait.
    OF_ALONE = 0.8
    EVENNESS = 0.98
    LONGEST_MS = 25

    # alone: the sections per second of one process without competition.
    Result = Struct.new(:contestant, :alone, :shares) do
      def of_alone = shares.rate / alone

      def to_h =
        { contestant: contestant.name, alone_per_s: alone, of_alone: of_alone, **shares.to_h }
    end

    private

    def measure(placement)
      each_of(contenders, placement) do |contestant|
        yield contestant.name
        start([contestant], placement, each: PROCESSES) do |processes|
          contest(contestant, processes, fresh_key)
        end
      end
    end

    # One process runs alone before the contest and after it. The average of its two rates is fair
    # even if the machine becomes slower or faster during the contest.
    def contest(contestant, processes, key)
      alone = [alone(processes, key)]
      shares =
        Shares.new(
          Contest.run(processes, key, @options.contest, threads: self.class::THREADS),
          @options.contest
        )
      alone << alone(processes, key)
      Result.new(contestant, alone.sum / alone.size, shares)
    end

    def alone(processes, key) =
      Shares.new(Contest.run(processes.first(1), key, ALONE, warm_up: WARM_UP), ALONE).rate

    def columns(_) = COLUMNS

    def checks(results, _)
      results.select { |result| result.contestant.plock? }.flat_map { |result| own(result).compact }
    end

    def own(result)
      part, name, shares = self.class, result.contestant.name, result.shares
      [
        if (least = part::OF_ALONE)
          Check.new(
            "#{name} at least #{least} of one process alone", format("%.2f", result.of_alone),
            result.of_alone >= least
          )
        end,
        Check.new(
          "#{name} least/most at least #{part::EVENNESS}", format("%.3f", shares.evenness),
          shares.evenness >= part::EVENNESS
        ),
        if (most = part::LONGEST_MS)
          Check.new(
            "#{name} no wait longer than #{most} ms", format("%.1f", shares.longest_ms),
            shares.longest_ms <= most
          )
        end
      ]
    end
  end
end
