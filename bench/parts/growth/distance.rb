# frozen_string_literal: true

require_relative "../../support/link"
require_relative "../../support/relay"
require_relative "../../support/runner"
require_relative "section"

module Bench
  class Growth < Part
    # How many round trips does a lock need if its server is far away?
    class Distance < Section
      TITLE = "Distance of the server"
      STEP = "round trip ms"
      FAMILY = :lock
      STEPS = [0.1, 1.0, 5.0, 20.0, 50.0].freeze
      NAMES = %w[plock-tcp redlock-hiredis].freeze

      PAIRS = 1.0       # seconds for which pairs of acquire and release are timed
      WARM_UP = 0.2     # seconds
      HANDOFFS = 10
      # seconds for which the holder stays, in addition to two round trips; the waiter must be
      # waiting before the release
      HOLD = 0.15..0.4
      SEED = 1

      FIGURES = {
        measured_ms: Figure.new(title: "PING ms", digits: 2),
        pair_ms: Figure.new(title: "pair ms", digits: 2, plot: "distance-pair"),
        pair_trips: Figure.new(title: "pair, round trips", digits: 2, least: 1),
        handoff_ms: Figure.new(title: "hand-off ms", digits: 2, plot: "distance-hand-off"),
        handoff_trips: Figure.new(title: "hand-off, round trips", digits: 2, least: 1)
      }.freeze

      # The number of round trips must not grow with their duration, so the bound is the same for
      # all steps.
      def self.bound(_from, _to) = SLACK

      # The target: at most this many round trips at the longest distance. At that distance, all
      # other costs are negligible.
      TRIPS = 2.1

      private

      def measure(placement)
        Link.open(@server.address, placement.server_core) do |link|
          each_of(@contestants.select { |one| NAMES.include?(one.name) }, placement) do |one|
            rows(one) do |n|
              yield "#{one.name}, #{n} ms"
              link.round_trip = n
              step(one, link, placement)
            end
          end
        end
      end

      def step(one, link, placement)
        trip = link.round_trip
        pair = pair(one, link, placement)
        handoff = handoff(one, link, trip, placement)
        {
          measured_ms: trip, pair_ms: pair, pair_trips: pair / trip, handoff_ms: handoff,
          handoff_trips: handoff / trip
        }
      end

      def check(rows, name, figure)
        last = rows.last
        Check.new(
          "#{last.contestant.name} at most #{TRIPS} #{figure.title} of #{last.n} ms",
          figure.text(last.figures[name]), last.figures[name] <= TRIPS
        )
      end

      def pair(one, link, placement)
        runner = Runner.new(one, link.address, placement, nil)
        @versions.merge!(runner.versions)
        runner.time(WARM_UP, PAIRS).fetch("p50_us") / 1e3
      ensure
        runner&.stop
      end

      def handoff(one, link, trip, placement)
        random = Random.new(SEED)
        Contender.start([one], link.address, placement, each: 2) do |processes|
          relay = Relay.new(*processes, fresh_key)
          passings = Array.new(HANDOFFS) do
            relay.pass { sleep(random.rand(HOLD) + (trip * 2 / 1e3)) }
          end
          relay.finish
          took = passings.select(&:waited?).map(&:took_ns).sort
          took[took.size / 2] / 1e6
        end
      end
    end
  end
end
