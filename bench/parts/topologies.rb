# frozen_string_literal: true

require_relative "handoff"
require_relative "pairs"
require_relative "../support/floor"
require_relative "../support/measuring"

module Bench
  # Is a lock as fast on a node of a cluster, and on a primary that sentinels name, as on one Redis?
  class Topologies < Part
    NAME = "topologies"
    TITLE = "Topologies"
    FAMILY = :topologies

    # The targets. A contestant must reach at least these shares of what its reference reaches: of
    # the pairs per second, and of the speed of hand-offs.
    PAIRS = 0.97
    HANDOFFS = 0.9

    # The contestants take turns with their hand-offs, in this many rounds.
    ROUNDS = 5

    COLUMNS =
      Pairs::COLUMNS
        .slice("contestant", "pairs/s", "min–max", "p50 µs", "p99 µs", "objects")
        .to_a
        .insert(3, ["of the reference", ->(r) { format("%.2f", r.ratio) }])
        .to_h
        .freeze

    HANDOFF_COLUMNS = {
      "contestant" => ->(r) { r.to.label },
      **Handoff::COLUMNS.slice("p50 ms", "p99 ms", "most ms", "hand-offs")
    }.freeze

    # Measures as the other parts do, but does not count commands. Counting commands works only with
    # a single server.
    class Uncounted < Measuring
      private

      def count(runner, result) =
        result.objects = runner.count(COUNTED)["objects"]&.fdiv(COUNTED)
    end

    # Measures the hand-offs of these contestants in turn.
    class Handoffs < Handoff
      NAME = Topologies::NAME
      TITLE = "Hand-off by topology"
      FAMILY = Topologies::FAMILY

      private

      def measure(placement)
        all = Array.new(ROUNDS) do |round|
          yield "hand-offs, round #{round + 1} of #{ROUNDS}"
          contenders.rotate(round).flat_map do |one|
            relay([one], @options.handoffs / ROUNDS, placement, each: 2)
          end
        end
        all.flatten.group_by(&:to).map do |contestant, results|
          Handoff::Result.new(contestant, contestant, results.flat_map(&:took_ms).sort)
        end
      end

      def columns(_) = HANDOFF_COLUMNS

      def checks(results, _)
        results.reject { |one| one.to.floor? }.filter_map do |one|
          floor = results.find { |other| other.to.floor? && other.to.beside?(one.to) } or next
          ratio = floor.p50_ms / one.p50_ms
          Check.new("#{one.to.name} hands over at #{HANDOFFS} of the speed or more, p50",
                    format("%.2f", ratio), ratio >= HANDOFFS)
        end
      end
    end

    # Returns a Finding for the pairs, and another one for the hand-offs.
    def run(placement, &progress)
      return if @contestants.empty?

      require_relative "../support/topology_servers"
      TopologyServers.run do |servers|
        @server = servers
        [super, Handoffs.new(servers, @contestants, @options, @missing).run(placement, &progress)]
      end
    end

    private

    def measure(placement, &progress)
      results = Floor.compile do |floor|
        Uncounted.new(@server, @contestants, floor, @options).run(placement, &progress)
      end
      results.each { |result| @versions.merge!(result.versions) }
    end

    def columns(_) = COLUMNS

    def checks(results, _)
      results.select { |result| result.contestant.plock? }.map do |result|
        Check.new("#{result.contestant.name} at least #{PAIRS} of the pairs",
                  format("%.2f", result.ratio), result.ratio >= PAIRS)
      end
    end
  end
end
