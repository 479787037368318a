# frozen_string_literal: true

require_relative "../support/part"
require_relative "../support/relay"

module Bench
  # How long is a lock free between one process's release and the entry of a waiting process?
  class Handoff < Part
    NAME = "handoff"
    TITLE = "Hand-off"

    # seconds for which a process holds the lock; chosen at random, so that a polling waiter is not
    # in step with the releases
    HOLD = (0.02..0.12).freeze
    SEED = 1                   # the same for all contestants

    COLUMNS = {
      "released by" => ->(r) { r.from.label },
      "entered by" => ->(r) { r.to.label },
      "p50 ms" => ->(r) { format("%.2f", r.p50_ms) },
      "p99 ms" => ->(r) { format("%.2f", r.p99_ms) },
      "most ms" => ->(r) { format("%.2f", r.took_ms.last) },
      "hand-offs" => ->(r) { r.took_ms.size.to_s }
    }.freeze

    # The targets in milliseconds: the longest p50 in each placement, and the longest hand-off from
    # an older process.
    P50_MS = { "one" => 0.35, "two" => 0.45, "free" => 0.45 }.freeze
    FROM_OLDER_MS = 100

    # took_ms: the sorted times of all hand-offs.
    Result = Struct.new(:from, :to, :took_ms) do
      def p50_ms = took_ms[took_ms.size / 2]
      def p99_ms = took_ms[took_ms.size * 99 / 100]

      def to_h =
        {
          from: from.name, to: to.name, p50_ms: p50_ms, p99_ms: p99_ms, most_ms: took_ms.last,
          hand_offs: took_ms.size
        }
    end

    private

    def measure(placement)
      same = each_of(contenders, placement) do |contestant|
        yield contestant.name
        relay([contestant], @options.handoffs, placement, each: 2)
      end
      yield "older and newer"
      same + between_older_and_newer(placement)
    end

    # Measures hand-offs between an older and a newer process on one key, in both directions.
    def between_older_and_newer(placement)
      pair = [contenders.find(&:plock?), contenders.find { |one| one.name == "older" }]
      return [] if pair.any?(&:nil?)

      attempt("older and newer", placement) { relay(pair, @options.handoffs * 2, placement) }
    end

    # Returns a Result for each direction in which the lock was handed over.
    def relay(contestants, times, placement, each: 1)
      random = Random.new(SEED)
      passings = start(contestants, placement, each: each) do |processes|
        relay = Relay.new(*processes, fresh_key)
        Array.new(times) { relay.pass { sleep(random.rand(HOLD)) } }
      end
      passings
        .select(&:waited?)
        .group_by { |passing| [passing.from, passing.to] }
        .map do |(from, to), all|
          Result.new(from, to, all.map { |passing| passing.took_ns / 1e6 }.sort)
        end
    end

    def columns(_) = COLUMNS

    def checks(results, placement)
      results.select { |result| result.to.plock? }.map do |result|
        if result.from.plock?
          most = P50_MS.fetch(placement.name)
          Check.new(
            "#{result.to.name} enters within #{most} ms, p50", format("%.2f", result.p50_ms),
            result.p50_ms <= most
          )
        else
          most = result.took_ms.last
          Check.new(
            "#{result.to.name} notices within #{FROM_OLDER_MS} ms that an older process has left",
            format("%.2f", most), most <= FROM_OLDER_MS
          )
        end
      end
    end
  end
end
