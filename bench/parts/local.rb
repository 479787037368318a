# frozen_string_literal: true

require_relative "../support/contest"
require_relative "../support/measuring"
require_relative "../support/part"
require_relative "../support/relay"

module Bench
  # What does a lock cost among the processes of one host, and how soon does the next waiter get
  # it?
  class LocalLocks < Part
    NAME = "local"
    TITLE = "Locks on one host"
    FAMILY = :local

    PROCESSES = 8
    WARM_UP = 0.03    # seconds, before each measured slice
    DEATHS = 10       # holders that are killed
    HOLD = 0.01..0.03 # seconds that a waiter waits
    SEED = 1
    EMBEDDED = /\Alocal-/ # only these contestants have targets

    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "pairs/s" => ->(r) { r.rate.round.to_s },
      "p50 µs" => ->(r) { format("%.2f", r.p50) },
      "p99 µs" => ->(r) { format("%.2f", r.p99) },
      "hand-off p50 µs" => ->(r) { format("%.0f", middle(r.handoffs) / 1e3) },
      "p99" => ->(r) { format("%.0f", r.handoffs[r.handoffs.size * 99 / 100] / 1e3) },
      "8 processes: sections/s" => ->(r) { r.shares.rate.round.to_s },
      "least/most" => ->(r) { format("%.3f", r.shares.evenness) },
      "longest wait ms" => ->(r) { format("%.1f", r.shares.longest_ms) },
      "dead holder ms" => ->(r) { r.deaths ? format("%.2f", middle(r.deaths) / 1e6) : "–" }
    }.freeze

    PAIRS = 400_000
    P50_US = 2.5
    HANDOFF_US = 10    # the most µs by which a hand-off may exceed flock's
    OF_PARSE = 0.9     # the pairs of Plock.acquire, as a share of Parse::Lock's
    EVENNESS = 0.98
    DEATH_MS = 10

    def self.middle(sorted) = sorted[sorted.size / 2]

    # handoffs, deaths: sorted times in nanoseconds. Each time in `deaths` runs from the kill of a
    # holder until the waiter enters. deaths is nil if a dead holder's lock stays taken until its
    # lease expires.
    Row = Struct.new(:contestant, :result, :handoffs, :shares, :deaths) do
      def rate = result.rate
      def p50 = result.p50
      def p99 = result.p99

      def to_h
        {
          contestant: contestant.name, pairs_per_s: rate, p50_us: p50, p99_us: p99,
          handoff_us: LocalLocks.middle(handoffs) / 1e3,
          dead_holder_ms: deaths&.then { |all| LocalLocks.middle(all) / 1e6 }, **shares.to_h
        }
      end
    end

    private

    def measure(placement)
      each_of(@contestants, placement) do |one|
        yield one.name
        Row.new(one, pairs(one, placement), *waiting(one, placement))
      end
    end

    def pairs(one, placement)
      runner = Runner.new(one, @server.address, placement, nil)
      result = Result.new(one, runner.versions)
      @versions.merge!(result.versions)
      @options.rounds.times { result.rounds << runner.time(WARM_UP, @options.seconds) }
      result
    ensure
      runner&.stop
    end

    def waiting(one, placement)
      [
        handoffs(one, placement), shares(one, placement),
        (deaths(one, placement) unless one.name == "redis-unix")
      ]
    end

    def handoffs(one, placement)
      random = Random.new(SEED)
      start([one], placement, each: 2) do |processes|
        relay = Relay.new(*processes, fresh_key)
        passings = Array.new(@options.handoffs) { relay.pass { sleep(random.rand(HOLD)) } }
        relay.finish
        passings.select(&:waited?).map(&:took_ns).sort
      end
    end

    def shares(one, placement)
      start([one], placement, each: PROCESSES) do |processes|
        Shares.new(Contest.run(processes, fresh_key, @options.contest), @options.contest)
      end
    end

    # Returns the sorted times from the kill of a holder until the waiter enters.
    def deaths(one, placement)
      Array.new(DEATHS) do
        start([one], placement, each: 2) do |(holder, waiter)|
          key = fresh_key
          holder.enter(key)
          holder.entered
          waiter.enter(key)
          sleep(HOLD.max)
          killed = Bench.now
          holder.kill
          waiter.entered.fetch("entered_ns") - killed
        end
      end.sort
    end

    def columns(_) = COLUMNS

    def checks(rows, _)
      named = rows.to_h { |row| [row.contestant.name, row] }
      embedded = rows.select { |row| EMBEDDED.match?(row.contestant.name) }
      [
        *embedded.flat_map { |row| own(row) },
        *(embedded.map { |row| beside_flock(row, named["flock"]) } if named.key?("flock")),
        beside_parse(*named.values_at("local-acquire", "local-parse"))
      ].compact
    end

    def beside_flock(row, flock)
      own, other = [row, flock].map { |each| self.class.middle(each.handoffs) / 1e3 }
      Check.new(
        "#{row.contestant.name} hand-off p50 within #{HANDOFF_US} µs of flock's",
        format("%.0f, flock %.0f", own, other), own <= other + HANDOFF_US
      )
    end

    def beside_parse(acquire, parse)
      return unless acquire && parse

      share = acquire.rate / parse.rate
      Check.new(
        "local-acquire at least #{OF_PARSE} of local-parse's pairs", format("%.2f", share),
        share >= OF_PARSE
      )
    end

    def own(row)
      name = row.contestant.name
      [
        Check.new("#{name} at least #{PAIRS} pairs/s", row.rate.round.to_s, row.rate >= PAIRS),
        Check.new("#{name} p50 within #{P50_US} µs", format("%.2f", row.p50), row.p50 <= P50_US),
        Check.new(
          "#{name} least/most at least #{EVENNESS}", format("%.3f", row.shares.evenness),
          row.shares.evenness >= EVENNESS
        ),
        Check.new(
          "#{name} a dead holder's lock within #{DEATH_MS} ms, p50",
          format("%.2f", self.class.middle(row.deaths) / 1e6),
          self.class.middle(row.deaths) <= DEATH_MS * 1e6
        )
      ]
    end
  end
end
