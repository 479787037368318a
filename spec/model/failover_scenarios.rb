# frozen_string_literal: true

require_relative "scenarios"

module Model
  # The scenarios of failovers. A failover takes no time here, so `idle` counts only time in which a
  # primary serves. If a failover loses a release, the lock stays taken for a TTL.
  module FailoverScenarios
    T = Scenarios::T
    B = Scenarios::B
    LOSSY = { lag: 1, fail_over: 1 }.freeze
    SPLIT = { lag: 1, split: 1 }.freeze

    module_function

    def scenario(...) = Scenarios.scenario(...)

    def short
      [
        scenario("a failover", "p", "p", faults: { fail_over: 1 }),
        scenario("a failover loses writes", "p", "p", faults: LOSSY, idle: T),
        scenario("two primaries", "p", "p", faults: { split: 1 }, idle: T),
        scenario("two primaries, writes lost", "p", "p", faults: SPLIT, idle: T),
        scenario("a failover to a slower clock", "p", "p", faults: { fail_over: 1, clock_back: 1 }),
        scenario("a message lost", "i", "p", "p", faults: { drop: 1 }, idle: B)
      ]
    end

    def long
      [
        scenario("a failover", "p", "p", "p", faults: { fail_over: 1 }, quiet: true),
        scenario("a failover, giving up", "p", "p", faults: { fail_over: 1, give_up: 2 }),
        scenario("a failover, a subscription cut", "p", "p", faults: { fail_over: 1, cut: 1 }),
        scenario("a failover loses writes", "p", "p", "p", faults: LOSSY, idle: T, quiet: true),
        scenario("a failover loses writes, a renewal", "p", "p", faults: { **LOSSY, renew: 1 },
                 idle: T),
        scenario("a failover loses writes, giving up", "p", "p", faults: { **LOSSY, give_up: 1 },
                 idle: T),
        scenario("a failover loses writes, a crash", "p", "p", faults: { **LOSSY, crash: 1 },
                 idle: T + B),
        scenario("a failover and a message lost", "p", "p", faults: { **LOSSY, drop: 1 },
                 idle: T),
        scenario("two primaries, a renewal", "p", "p", faults: { split: 1, renew: 1 }, idle: T),
        scenario("two primaries, giving up", "p", "p", faults: { split: 1, give_up: 1 }, idle: T),
        scenario("two primaries, a crash", "p", "p", faults: { split: 1, crash: 1 },
                 idle: T + B),
        scenario("two primaries, a subscription cut", "p", "p", faults: { split: 1, cut: 1 },
                 idle: T),
        scenario("two primaries, a message lost", "p", "p", faults: { split: 1, drop: 1 },
                 idle: T),
        scenario("any delay, a failover", "p", "p", delays: true, faults: LOSSY),
        scenario("any delay, two primaries", "p", "p", delays: true, faults: { split: 1 })
      ]
    end

    # For each rule, the property that breaks without the rule, and a scenario that shows it.
    def broken
      {
        keep_ticket: [:order, scenario("a failover loses writes", "p", "p", "p", faults: LOSSY,
                                       idle: T, quiet: true)],
        look_after_cut: [:swallowed, scenario("a failover", "p", "p", faults: { fail_over: 1 })],
        remember_cut: [:swallowed, scenario("a failover", "p", "p", faults: { fail_over: 1 })],
        look_every: [:idle, scenario("a message lost", "p", "p", faults: { drop: 1 }, idle: B)],
        fresh_value: [:exclusion, scenario("a failover", "p", "p", faults: { fail_over: 1 })],
        clock_fence: [:fence, scenario("a failover loses writes", "p", "p", faults: LOSSY,
                                       idle: T)],
        check_leases: [:untold, scenario("two primaries", "p", "p", faults: { split: 1 }, idle: T)],
        check_late: [:untold, scenario("two primaries", "p", "p", faults: { split: 1 }, idle: T)],
        repeat_release: [:idle, scenario("a failover", "p", "p", faults: { fail_over: 1 })]
      }
    end

    # Like `broken`, for rules whose scenarios take longer to explore.
    def broken_at_length
      {
        leave_old: [:exclusion, scenario("two primaries", "p", "p", "i", faults: { split: 1 },
                                         idle: T, quiet: true)]
      }
    end

    # Violations that no rule prevents. With `strict`, not even a failover excuses two holders.
    def known
      {
        fence: scenario("a failover loses writes, and goes to a slower clock", "p", "p",
                        faults: { **LOSSY, clock_back: 1 }, idle: T),
        exclusion: scenario("a failover loses a lease", "p", "p", faults: LOSSY, idle: T,
                            strict: true)
      }
    end
  end
end
