# frozen_string_literal: true

require "rbconfig"
require_relative "../support/conversation"
require_relative "../support/part"

module Bench
  # What does a lock cost among Ractors, fibers and threads of one process, and how soon does the
  # next waiter get it?
  class Ractors < Part
    NAME = "ractors"
    TITLE = "Ractors, fibers and threads of one process"
    FAMILY = :growth # the same stores as the part `growth`

    ACTORS = {
      "1 thread" => ["threads", 1], "2 threads" => ["threads", 2],
      "2 Ractors" => ["ractors", 2], "1,000 fibers" => ["fibers", 1_000]
    }.freeze
    PAIRS = { "growth-redis" => 10_000, "growth-local" => 300_000 }.freeze # pairs in a round
    ROUNDS = 5
    LONGEST = 3.0 # seconds of contention, or --contest if that is less

    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "actors" => ->(r) { r.actors },
      "pairs/s" => ->(r) { r.rate.round.to_s },
      "min–max" => ->(r) { r.rates.minmax.map(&:round).join("–") },
      "hand-offs" => ->(r) { r.handoffs.size.to_s },
      "p50 µs" => ->(r) { r.p50 ? format("%.0f", r.p50) : "–" },
      "p99 µs" => ->(r) { r.p99 ? format("%.0f", r.p99) : "–" },
      "least" => ->(r) { r.entered.min.to_s },
      "most" => ->(r) { r.entered.max.to_s }
    }.freeze

    # rates: sorted pairs per second, of all actors together. handoffs: sorted nanoseconds.
    # entered: the number of each actor's entries.
    Row = Struct.new(:contestant, :actors, :rates, :handoffs, :entered) do
      def rate = rates[rates.size / 2]
      def p50 = handoffs[handoffs.size / 2]&.fdiv(1_000)
      def p99 = handoffs[handoffs.size * 99 / 100]&.fdiv(1_000)

      def to_h
        {
          contestant: contestant.name, actors: actors, pairs_per_s: rate,
          pairs_per_s_range: rates.minmax, handoff_p50_us: p50, handoff_p99_us: p99,
          handoffs: handoffs.size, least: entered.min, most: entered.max
        }
      end
    end

    # The process with the actors. It runs in the bench's bundle, because fibers need async.
    class Worker < Conversation
      LONG = 60 # seconds

      def initialize(contestant, address, placement)
        super(
          contestant, placement.client_core, RbConfig.ruby, "-rbundler/setup", "-I", LIB,
          File.join(ROOT, "support", "actors_worker.rb"), contestant.name, address.port.to_s,
          address.socket, bundle: true
        )
      end

      def gather(kind, count) = order("gather #{kind} #{count}", LONG)
      def sections(key, seconds) = order("sections #{key} #{seconds}", seconds + LONG)

      # Makes pairs, and returns the pairs per second.
      def pairs(count)
        pairs, took = order("pairs #{count}", LONG).values_at("pairs", "took_ns")
        pairs / (took / 1e9)
      end
    end

    # Each Ractor needs its own core, so this part has its own placement.
    def everywhere? = false

    def run(placement, &progress) = super(spread(placement), &progress)

    private

    def spread(placement)
      return placement unless placement.client_core

      cores = @options.cores.uniq.join(",")
      Placement.new("spread", "server and client on the cores #{cores}", cores, cores)
    end

    def measure(placement)
      each_of(@contestants, placement) do |one|
        ACTORS.map do |actors, (kind, count)|
          yield "#{one.name}, #{actors}"
          row(one, actors, kind, count, placement)
        end
      end
    end

    def row(one, actors, kind, count, placement)
      worker = Worker.new(one, @server.address, placement)
      @versions.merge!(worker.versions)
      worker.gather(kind, count)
      rates = Array.new(ROUNDS) { worker.pairs(PAIRS.fetch(one.name)) }.sort
      seen = worker.sections(fresh_key, [@options.contest, LONGEST].min)
      Row.new(one, actors, rates, *seen.values_at("handoffs_ns", "entered"))
    ensure
      worker&.stop
    end

    def columns(_) = COLUMNS

    def checks(rows, _)
      rows.group_by { |row| row.contestant.name }.flat_map do |name, own|
        named = own.to_h { |row| [row.actors, row] }
        [beside_threads(name, *named.values_at("2 Ractors", "2 threads")), *own.map { served(_1) }]
      end
    end

    def beside_threads(name, ractors, threads)
      share = ractors.rate / threads.rate
      Check.new(
        "#{name} 2 Ractors make no fewer pairs than 2 threads", format("%.2f", share), share >= 1
      )
    end

    def served(row)
      Check.new(
        "#{row.contestant.name} each of #{row.actors} enters",
        "#{row.entered.count(0)} never", row.entered.min.positive?
      )
    end
  end
end
