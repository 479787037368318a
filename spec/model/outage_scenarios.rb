# frozen_string_literal: true

require_relative "scenarios"

module Model
  # The scenarios of outages. If a process cannot reach the server, its lease lasts for a TTL, and
  # its turn for a baton's second.
  module OutageScenarios
    T = Scenarios::T
    B = Scenarios::B

    module_function

    def scenario(...) = Scenarios.scenario(...)

    def short
      [
        scenario("an outage of a process", "p", "p", faults: { away: 1 }, idle: T),
        scenario("an outage, the queue lost", "p", "p", faults: { down: 1, evict: 1 }, idle: T,
                 quiet: true),
        scenario("an outage of two in line", "pp", "i", faults: { away_in_line: 1 }, quiet: true),
        scenario("no connection is left", "p", "p", faults: { unsent: 1 }, idle: T)
      ]
    end

    def long
      [
        scenario("an outage of a process", "pp", "p", faults: { away: 1 }, idle: T, quiet: true),
        scenario("an outage of a process, giving up", "pp", "i", faults: { away: 1, give_up: 2 },
                 idle: T, quiet: true),
        scenario("an outage of a process, a crash", "p", "p", faults: { away: 1, crash: 1 },
                 idle: T + B),
        scenario("two outages", "p", "p", faults: { away: 2 }, idle: T + B),
        scenario("an outage, a crash", "pp", "i", faults: { down: 1, crash: 1 }, idle: T + B,
                 quiet: true),
        scenario("an outage, the queue lost", "pp", "i", faults: { down: 1, evict: 1 }, idle: T,
                 quiet: true),
        scenario("an outage, the queue lost, giving up", "pp", "i",
                 faults: { down: 1, evict: 1, give_up: 1 }, idle: T, quiet: true),
        scenario("an outage, a failover loses writes", "p", "p",
                 faults: { away: 1, lag: 1, fail_over: 1 }, idle: T),
        scenario("an outage, and silence", "p", "p", faults: { away: 1, silence: 1 }, idle: 2 * T),
        scenario("no connection is left", "pp", "p", faults: { unsent: 1 }, idle: T + B),
        scenario("no connection is left, giving up", "pp", "i", faults: { unsent: 1, give_up: 2 },
                 idle: T, quiet: true),
        scenario("no connection is left, a subscription cut", "p", "p",
                 faults: { unsent: 1, cut: 1 }, idle: T),
        scenario("no connection, a subscription deaf", "p", "p", faults: { unsent: 1, deaf: 1 },
                 idle: T),
        scenario("silence", "pp", "i", faults: { silence: 1 }, idle: T, quiet: true),
        scenario("any delay, an outage", "p", "p", delays: true, faults: { away: 1 }),
        scenario("any delay, no connection is left", "p", "p", delays: true,
                 faults: { unsent: 1 })
      ]
    end

    # For each rule, the property that breaks without the rule, and a scenario that shows it.
    def broken
      in_line = { faults: { away_in_line: 1 }, idle: T, quiet: true }
      full = { faults: { unsent: 1 }, idle: T + B }
      {
        rest: [:order, scenario("an outage of two in line", "pp", "i", **in_line)],
        in_turn: [:order, scenario("an outage of two in line", "pp", "i", **in_line)],
        rest_behind: [:order, scenario("an outage of a process", "pp", "i", faults: { away: 1 },
                                       idle: T, quiet: true)],
        try_again: [:unaware, scenario("no connection is left", "p", "i", **full)],
        resume: [:idle, scenario("an outage in line", "p", "i", faults: { away_in_line: 1 })],
        tell_all: [:unaware, scenario("no connection is left", "pp", "i", quiet: true, **full)],
        ask_again: [:unaware, scenario("no connection is left", "pp", "i", **full)]
      }
    end

    # Like `broken`, for rules whose scenarios take longer to explore.
    def broken_at_length
      {
        doubt_place: [:order, scenario("an outage of a process", "pp", "i", faults: { away: 1 },
                                       idle: T, quiet: true)]
      }
    end
  end
end
