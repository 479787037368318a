# frozen_string_literal: true

require_relative "scenarios"

module Model
  # The scenarios of locks with several holders. Here, `idle` is the longest time for which the
  # lock may keep out the first waiter whose process runs, although its share is compatible with
  # the holders'. If a frozen waiter is ahead of it, that time includes what is left of the
  # holders' leases, and the frozen waiter's baton.
  module SharedScenarios
    T = Scenarios::T
    B = Scenarios::B

    module_function

    def scenario(...) = Scenarios.scenario(...)

    def short
      [
        scenario("readers, a writer", "r", "w", "r"),
        scenario("a process with both", "rw", "ir"),
        scenario("two places", "2", "2", "2"),
        scenario("limits that differ", "1", "2", "2"),
        scenario("places, all may give up", "2", "2", "2", faults: { give_up: 3 }),
        scenario("a writer turns reader", "iw", "r", "ir", faults: { downgrade: 1 }),
        scenario("a place kept for longer", "2", "2", "2", faults: { keep: 1 }, ttl: 3),
        scenario("a renewal", "2", "2", "2", faults: { renew: 1 }),
        scenario("a crash", "w", "r", faults: { crash: 1 }, idle: T + B),
        scenario("a crash", "2", "2", "2", faults: { crash: 1 }, idle: T),
        scenario("a crash in line", "ir", "w", "r", faults: { crash_in_line: 1 }, idle: B, ttl: 3),
        scenario("a lost request", "w", "r", faults: { lose: 1 }, idle: T),
        scenario("a subscription cut", "2", "2", "2", faults: { cut: 1 }),
        scenario("a freeze", "2", "2", "2", faults: { freeze: 1 }, idle: T),
        scenario("a reader frozen in line", "iw", "r", "r", faults: { freeze_in_line: 1 },
                 victims: "r", ttl: 3),
        scenario("the queue lost", "w", "w", "r", faults: { evict: 1 }, idle: B, ttl: 3),
        scenario("the fence lost", "2", "2", faults: { forget: 2 }),
        scenario("any delay", "r", "w", delays: true),
        scenario("any delay", "1", "2", delays: true)
      ]
    end

    def long
      undisturbed + lives + connections + delays
    end

    def undisturbed
      [
        scenario("readers, a writer", "r", "r", "w", "r"),
        scenario("readers, writers", "w", "r", "w", "r"),
        scenario("two processes with both", "rw", "rw"),
        scenario("two places", "2", "2", "2", "2"),
        scenario("three places", "3", "3", "3", "3"),
        scenario("two processes with two", "22", "22"),
        scenario("limits that differ", "1", "2", "2", "3"),
        scenario("readers, a writer, giving up", "r", "w", "r", faults: { give_up: 3 }),
        scenario("a process with both, giving up", "rw", "r", faults: { give_up: 3 }),
        scenario("places, giving up", "2", "2", "2", "2", faults: { give_up: 2 }),
        scenario("limits that differ, giving up", "1", "2", "2", faults: { give_up: 3 }),
        scenario("and one does not wait", "r", "w", "ir", faults: { give_up: 2 }),
        scenario("writers turn readers", "w", "w", "r", faults: { downgrade: 2, give_up: 1 }),
        scenario("a place kept for longer", "w", "r", "r", faults: { keep: 1, give_up: 1 }, ttl: 3),
        scenario("a place kept for longer", "2", "2", "2", "2", faults: { keep: 1 }, ttl: 3),
        scenario("a renewal, giving up", "r", "w", "r", faults: { renew: 1, give_up: 2 }),
        scenario("a renewal", "rw", "r", faults: { renew: 1 }),
        scenario("a renewal, a place kept for longer", "iw", "rr", faults: { keep: 1, renew: 1 },
                 ttl: 3)
      ]
    end

    def lives
      [
        scenario("a crash", "r", "w", "r", "r", faults: { crash: 1 }, idle: T + B),
        scenario("a crash", "2", "2", "2", "2", faults: { crash: 1 }, idle: T),
        scenario("a crash of both", "rw", "r", faults: { crash: 1 }, idle: T + B),
        scenario("two crashes", "r", "w", "r", faults: { crash: 2 }, idle: (2 * T) + B),
        scenario("two crashes", "2", "2", "2", faults: { crash: 2 }, idle: T),
        scenario("a crash, a renewal", "r", "w", "r", faults: { crash: 1, renew: 1 }, idle: T + B),
        scenario("a place kept for longer, a crash", "2", "2", "2", faults: { keep: 1, crash: 1 },
                 idle: 3, ttl: 3),
        scenario("a writer turns reader, a crash", "w", "w", "r",
                 faults: { downgrade: 1, crash: 1 }, idle: T + B),
        scenario("a crash in line, downgrade", "w", "w", "r",
                 faults: { downgrade: 1, crash_in_line: 1 }, idle: 3, ttl: 3),
        scenario("a crash in line", "ir", "w", "r", "r", faults: { crash_in_line: 1 }, idle: B,
                 ttl: 3),
        scenario("a crash in line, giving up", "ir", "w", "r",
                 faults: { crash_in_line: 1, give_up: 2 }, idle: B, ttl: 3),
        scenario("a crash in line, a process with both", "ir", "w", "rw",
                 faults: { crash_in_line: 1 }, idle: B, ttl: 3, victims: "w"),
        scenario("a freeze", "r", "w", "r", faults: { freeze: 1 }, idle: T + B),
        scenario("a freeze", "2", "2", "2", "2", faults: { freeze: 1 }, idle: T),
        scenario("a freeze of both", "rw", "r", faults: { freeze: 1 }, idle: T + B),
        scenario("a writer frozen in line", "ir", "w", "r", faults: { freeze_in_line: 1 },
                 victims: "w", idle: 3 + B, ttl: 3),
        scenario("a freeze, giving up", "r", "w", "r", faults: { freeze: 1, give_up: 1 },
                 idle: T + B),
        scenario("a place kept, a freeze in line", "w", "r", "r",
                 faults: { keep: 1, freeze_in_line: 1 }, idle: B, ttl: 4, victims: "r")
      ]
    end

    def connections
      [
        scenario("a lost request", "r", "w", "r", faults: { lose: 1 }, idle: T),
        scenario("a lost request", "2", "2", "2", faults: { lose: 1 }, idle: T),
        scenario("a lost request, a process with both", "rw", "r", faults: { lose: 1 }, idle: T),
        scenario("a lost request, a downgrade", "w", "r", faults: { lose: 1, downgrade: 1 },
                 idle: T),
        scenario("a lost request, a renewal", "w", "r", faults: { lose: 1, renew: 1 }, idle: T),
        scenario("a lost request, a crash", "w", "r", faults: { lose: 1, crash: 1 },
                 idle: (2 * T) + B),
        scenario("two lost requests", "w", "r", faults: { lose: 2 }, idle: 2 * T),
        scenario("a subscription cut", "r", "w", "r", faults: { cut: 1 }),
        scenario("a subscription cut", "2", "2", "2", "2", faults: { cut: 1 }),
        scenario("a subscription cut, limits that differ", "1", "2", "2", faults: { cut: 1 }),
        scenario("a subscription cut, both in a process", "rw", "r", faults: { cut: 1 }),
        scenario("a subscription cut twice", "2", "2", "2", faults: { cut: 2 }),
        scenario("a subscription cut, giving up", "r", "w", "r", faults: { cut: 1, give_up: 1 }),
        scenario("a subscription cut, a downgrade", "w", "w", "r",
                 faults: { cut: 1, downgrade: 1 }),
        scenario("a subscription cut, a crash", "r", "w", "r", faults: { cut: 1, crash: 1 },
                 idle: T + B),
        scenario("a subscription deaf", "r", "w", "r", faults: { deaf: 1 }, idle: T),
        scenario("a subscription deaf, both in a process", "rw", "r", faults: { deaf: 1 }, idle: T),
        scenario("a subscription deaf", "2", "2", "2", "2", faults: { deaf: 1 }, idle: T)
      ]
    end

    def delays
      [
        scenario("any delay", "r", "w", "r", delays: true),
        scenario("any delay", "1", "2", "2", delays: true),
        scenario("any delay, a downgrade", "w", "r", delays: true, faults: { downgrade: 1 }),
        scenario("any delay, a crash", "2", "2", "2", delays: true, faults: { crash: 1 }),
        scenario("any delay, giving up", "w", "r", delays: true, faults: { give_up: 2 }),
        scenario("any delay, a renewal", "w", "r", delays: true, faults: { renew: 1 }),
        scenario("any delay, a freeze", "w", "r", delays: true, faults: { freeze: 1 }),
        scenario("any delay, a lost request", "w", "r", delays: true, faults: { lose: 1 })
      ]
    end

    # For each rule, the property that breaks without the rule, and a scenario that shows it. In
    # this scenario, no other rule prevents the violation.
    def broken
      in_line = { faults: { crash_in_line: 1 }, idle: B, ttl: 3 }
      {
        sweep: [:idle, scenario("a crash, a renewal", "i2", "i2", "2",
                                faults: { crash: 1, renew: 1 }, idle: T)],
        keys_last: [:exclusion, scenario("readers, a writer", "ir", "ir", "iw")],
        one_mode: [:exclusion, scenario("a reader, a writer", "ir", "iw")],
        within_limit: [:exclusion, scenario("one place", "i1", "i1")],
        strict_order: [:order, scenario("readers, a writer", "ir", "w", "ir")],
        probe: [:idle, scenario("a crash in line", "ir", "w", "r", **in_line)],
        watch_first: [:idle, scenario("a crash in line", "ir", "w", "r", **in_line), :look_every],
        call_several: [:idle, scenario("a reader frozen in line", "iw", "r", "r",
                                       faults: { freeze_in_line: 1 }, victims: "r", ttl: 3)],
        baton_inside: [:order, scenario("writers, a reader", "iw", "w", "ir")],
        claim_place: [:swallowed, scenario("two writers", "iw", "w")],
        claim_plainly: [:swallowed, scenario("a subscription cut", "i2", "i2", "2",
                                             faults: { cut: 1 })],
        admitted_calls: [:idle, scenario("a process with two readers", "iw",
                                         "rr"), :look_every, :uncalled],
        keep_look: [:idle, scenario("a process with both", "rw", "ir"), :look_every, :uncalled],
        tell_kept: [:idle, scenario("a place kept for longer", "iw", "w", faults: { keep: 1 },
                                    ttl: 3), :look_every],
        leave_admits: [:idle, scenario("one place gives up", "i2", "1", "2",
                                       faults: { give_up: 1 })],
        leave_place: [:swallowed, scenario("one gives up", "iw", "w", "w", faults: { give_up: 1 })],
        downgrade_admits: [:idle, scenario("a writer turns reader", "iw", "r",
                                           faults: { downgrade: 1 })],
        only_live: [:exclusion, scenario("any delay, a renewal", "iw", "iw", delays: true,
                                         faults: { renew: 1 })],
        calls_stand_by: [:idle, scenario("a freeze in line", "i1", "1", "1",
                                         faults: { freeze_in_line: 1 }, idle: B,
                                         ttl: 3), :look_every],
        tell_both: [:idle, scenario("a place kept, a freeze in line", "i1", "1", "1",
                                    faults: { keep: 1, freeze_in_line: 1 }, idle: B,
                                    ttl: 4), :look_every]
      }
    end

    # Like `broken`, for rules whose scenarios take longer to explore.
    def broken_at_length
      watched = { faults: { keep: 1, give_up: 2 }, ttl: 3 }
      {
        go_on: [
          :idle,
          scenario(
            "crashes in line, in parts",
            "i",
            "pp",
            "p",
            faults: {
              crash_in_line: 1
            },
            tries: 1,
            ttl: 3
          )
        ],
        tell_change: [
          :idle, scenario("a process with two", "i2", "i2", "22"), :look_every, :uncalled
        ],
        leave_tells: [
          :idle, scenario("a place kept for longer, giving up", "i1", "1", "1", **watched),
          :tell_both, :look_every
        ]
      }
    end
  end
end
