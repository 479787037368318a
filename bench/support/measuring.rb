# frozen_string_literal: true

require_relative "bench"
require_relative "runner"

module Bench
  # The result of one contestant in one placement. `rounds` has the answer to each measured slice.
  # `floor` is the Result of the reference.
  class Result
    attr_reader :contestant, :rounds, :versions
    attr_accessor :floor, :objects, :commands, :growth

    def initialize(contestant, versions)
      @contestant = contestant
      @versions = versions
      @rounds = []
    end

    def rates = @rounds.map { |round| round.fetch("pairs") / round.fetch("seconds") }
    def rate = median(rates)
    def p50 = median(@rounds.map { |round| round.fetch("p50_us") })
    def p99 = median(@rounds.map { |round| round.fetch("p99_us") })

    # Compares each round with the floor's slice of the same round, so that a temporary slowdown of
    # the machine cancels out.
    def ratios = rates.zip(floor.rates).map { |mine, floors| mine / floors }
    def ratio = median(ratios)

    def p99_ratio =
      median(
        @rounds
          .zip(floor.rounds)
          .map { |mine, floors| mine.fetch("p99_us") / floors.fetch("p99_us") }
      )

    def to_h
      {
        contestant: contestant.name, transport: contestant.transport, pairs_per_s: rate,
        pairs_per_s_range: rates.minmax, of_floor: ratio, of_floor_range: ratios.minmax,
        p50_us: p50, p99_us: p99, p99_of_floor: p99_ratio, objects_per_pair: objects,
        commands_per_pair: commands, resident_growth_bytes: growth
      }
    end

    private

    def median(values)
      sorted = values.sort
      middle = sorted.size / 2
      sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0
    end
  end

  # Measures contestants side by side. All their processes run, and take turns in short slices.
  class Measuring
    WARM_UP = 0.5      # seconds, once per process
    # seconds of warm-up before each slice, because the other processes have replaced the contents
    # of the processor's caches
    SLICE_WARM_UP = 0.03
    COUNTED = 1_000    # pairs in which objects and commands are counted
    SETTLING = 100_000 # pairs before the memory is measured
    MILLION = 1_000_000

    def initialize(server, contestants, floor_program, options)
      @server = server
      @contestants = contestants
      @floor_program = floor_program
      @options = options
    end

    # Yields progress messages, and returns a Result for each contestant.
    def run(placement, million: false, &progress)
      runners = []
      @contestants.each do |contestant|
        runners << Runner.new(contestant, @server.address, placement, @floor_program)
      end
      results = runners.to_h { |runner| [runner, Result.new(runner.contestant, runner.versions)] }
      go_round(results, &progress)
      results.each { |runner, result| count(runner, result) }
      results.each do |runner, result|
        result.growth = growth(runner, &progress) if million && runner.contestant.ours?
      end
      compare(results.values)
    ensure
      runners&.each(&:stop)
    end

    private

    def go_round(results)
      order = results.keys
      order.each { |runner| runner.time(WARM_UP, 0.01) }
      @options.rounds.times do |round|
        yield "round #{round + 1} of #{@options.rounds}"
        # The order changes from round to round, so that a contestant does not always run after the
        # same other contestant.
        order
          .rotate(round)
          .each { |runner| results[runner].rounds << runner.time(SLICE_WARM_UP, @options.seconds) }
      end
    end

    def count(runner, result)
      answer = nil
      commands = @server.count_commands { answer = runner.count(COUNTED) }
      result.commands = commands.fdiv(COUNTED)
      result.objects = answer["objects"]&.fdiv(COUNTED)
      raise Failed, "#{runner.contestant.name} does not lock on the server" if result.commands < 1
    end

    def growth(runner)
      yield "a million pairs of #{runner.contestant.name}"
      runner.count(SETTLING)
      before = runner.resident or return nil
      runner.count(MILLION)
      runner.resident - before
    end

    def compare(results)
      floors =
        results
          .select { |result| result.contestant.floor? }
          .to_h { |floor| [floor.contestant.transport, floor] }
      results.each { |result| result.floor = floors.fetch(result.contestant.transport) }
    end
  end
end
