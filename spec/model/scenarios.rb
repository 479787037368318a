# frozen_string_literal: true

require_relative "scenario"

module Model
  # The scenarios. The unit of time is a baton's second. The TTL is 2 units unless a scenario says
  # otherwise.
  module Scenarios
    T = 2 # a lease's TTL
    B = 1 # a baton's second
    W = 1 # the window for older clients

    module_function

    def scenario(title, *processes, **options) =
      Scenario.new(title: title, processes: processes, **options)

    def short
      [
        scenario("nothing goes wrong", "p", "p", "p"),
        scenario("a process with two", "pp", "p"),
        scenario("all may give up", "p", "p", "p", faults: { give_up: 3 }),
        scenario("and one does not wait", "p", "p", "i", faults: { give_up: 1 }),
        scenario("a renewal", "p", "p", "p", faults: { renew: 1 }),
        scenario("a lock kept for longer", "p", "p", "p", faults: { keep: 1 }, ttl: 3),
        scenario("a crash", "p", "p", "p", faults: { crash: 1 }, idle: T + B),
        scenario("a lost request", "p", "p", faults: { lose: 1 }, idle: T),
        scenario("a lost request, a crash", "p", "p", faults: { lose: 1, crash: 1 },
                 idle: (2 * T) + B),
        scenario("a subscription cut", "p", "p", "p", faults: { cut: 1 }),
        scenario("a freeze", "p", "p", "p", faults: { freeze: 1 }, idle: T),
        scenario("a freeze in line", "p", "p", "p", faults: { freeze_in_line: 1 }, idle: B, ttl: 3),
        scenario("the queue lost", "pp", "p", faults: { evict: 1 }, idle: B, ttl: 3),
        scenario("everything lost between leases", "p", "p", "p", faults: { evict: 1, forget: 1 },
                 idle: B),
        scenario("the fence lost", "p", "p", faults: { forget: 2 }),
        scenario("the clock set back", "p", "p", faults: { clock_back: 1 }),
        scenario("an older client", "p", "p", "o", idle: 1, ttl: 3),
        scenario("never-ending, and an older one", "p", "p", "o", window: W, second: 2, idle: W,
                 saturated: true, always: 2),
        scenario("older ones, and one who waits", "p", "o", "o", window: W, second: 2, idle: W,
                 saturated: true, always: 0),
        scenario("any delay", "p", "p", delays: true)
      ]
    end

    def long
      [
        scenario("crashes in line, in parts", "i", "pp", "p", faults: { crash_in_line: 1 },
                 tries: 1, ttl: 3),
        scenario("two frozen in line", "i", "pp", "p", faults: { freeze_in_line: 1 }, idle: 2 * B,
                 ttl: 4),
        scenario("the queue lost, three processes", "i", "pp", "p", faults: { evict: 1 }, idle: B,
                 ttl: 4),
        scenario("and one does not wait", "p", "p", "i", faults: { give_up: 3 }),
        scenario("a crash of two", "pp", "p", faults: { crash: 1 }, idle: T + B),
        scenario("a subscription deaf", "p", "p", "p", faults: { deaf: 1 }, idle: T),
        scenario("nothing goes wrong", "p", "p", "p", "p"),
        scenario("two processes with two", "pp", "pp"),
        scenario("all may give up", "p", "p", "p", "p", faults: { give_up: 4 }),
        scenario("a renewal, giving up", "p", "p", "p", faults: { renew: 1, give_up: 3 }),
        scenario("a process with two, giving up", "pp", "p", faults: { give_up: 3 }),
        scenario("a lock kept for longer, giving up", "p", "p", "p", "p",
                 faults: { keep: 1, give_up: 2 }, ttl: 3),
        scenario("a lock kept for longer, a freeze", "p", "p", "p",
                 faults: { keep: 1, freeze_in_line: 1 }, idle: B, ttl: 4),
        scenario("a crash", "p", "p", "p", "p", faults: { crash: 1 }, idle: T + B),
        scenario("two crashes", "p", "p", "p", faults: { crash: 2 }, idle: (2 * T) + B),
        scenario("a lost request", "p", "p", "p", faults: { lose: 1 }, idle: T),
        scenario("two lost requests", "p", "p", faults: { lose: 2 }, idle: 2 * T),
        scenario("a lost request, a crash", "p", "p", "p", faults: { lose: 1, crash: 1 },
                 idle: (2 * T) + B),
        scenario("a subscription cut", "p", "p", "p", "p", faults: { cut: 1 }),
        scenario("a subscription cut, two in a process", "pp", "p", faults: { cut: 1 }),
        scenario("a subscription cut twice", "p", "p", "p", faults: { cut: 2 }),
        scenario("a subscription cut, giving up", "p", "p", "p", faults: { cut: 1, give_up: 3 }),
        scenario("a subscription cut, a crash", "p", "p", "p", faults: { cut: 1, crash: 1 },
                 idle: T + B),
        scenario("a subscription deaf", "p", "p", "p", "p", faults: { deaf: 1 }, idle: T),
        scenario("a freeze", "p", "p", "p", "p", faults: { freeze: 1 }, idle: T),
        scenario("a subscription deaf, two in a process", "pp", "p", faults: { deaf: 1 }, idle: T),
        scenario("a freeze, two in a process", "pp", "p", faults: { freeze: 1 }, idle: T + B),
        scenario("a freeze, giving up", "p", "p", "p", faults: { freeze: 1, give_up: 3 }, idle: T),
        scenario("a lost request, two in a process", "pp", "p", faults: { lose: 1 }, idle: T),
        scenario("a lost request, giving up", "p", "p", "p", faults: { lose: 1, give_up: 1 },
                 idle: T),
        scenario("a freeze, a crash", "p", "p", "p", faults: { freeze: 1, crash: 1 },
                 idle: (2 * T) + B),
        scenario("a window, giving up", "p", "p", "p", faults: { give_up: 3 }, window: W, second: 3,
                 idle: W, ttl: 4),
        scenario("a window, a crash", "p", "p", "p", faults: { crash: 1 }, window: W, second: 3,
                 idle: 4 + B + (2 * W), ttl: 4),
        scenario("a window, a subscription cut", "p", "p", "p", faults: { cut: 1 }, window: W,
                 second: 3, idle: W, ttl: 4),
        scenario("a window, a freeze in line", "p", "p", "p", faults: { freeze_in_line: 1 },
                 window: W, second: 3, idle: W + B, ttl: 4),
        scenario("a window, an older one, giving up", "p", "p", "o", faults: { give_up: 2 },
                 window: W, second: 3, idle: W + 1, ttl: 4),
        scenario("any delay", "p", "p", "p", delays: true),
        scenario("any delay, a crash", "p", "p", "p", delays: true, faults: { crash: 1 }),
        scenario("any delay, giving up", "p", "p", "p", delays: true, faults: { give_up: 1 }),
        scenario("any delay, a freeze", "p", "p", "p", delays: true, faults: { freeze: 1 }),
        scenario("any delay, a lost request, giving up", "p", "p", delays: true,
                 faults: { lose: 1, give_up: 2 }),
        scenario("any delay, a lost renewal", "p", "p", delays: true,
                 faults: { lose: 1, renew: 1 }),
        scenario("any delay, a lost request, a cut", "p", "p", delays: true,
                 faults: { cut: 1, lose: 1 })
      ]
    end

    # For each rule, the property that breaks without the rule, and a scenario that shows it. Some
    # entries also name other rules that must be off. For example, with look_every a waiter asks
    # once a second, which soon makes up for many missing rules. In a small scenario, replace_watch
    # matters only if just one waiter is told to look, so two_watch must be off.
    def broken
      starving = { window: W, second: 2, idle: W, saturated: true, always: 2 }
      {
        table_first: [:idle, scenario("nothing goes wrong", "p", "p")],
        subscribe_first: [:idle, scenario("nothing goes wrong", "p", "p")],
        timer: [:idle, scenario("a crash", "p", "p", faults: { crash: 1 }, idle: T + B)],
        earliest_timer: [:idle, scenario("a lock kept for longer", "p", "p", faults: { keep: 1 },
                                         ttl: 3), :look_every],
        look_every: [:idle, scenario("the queue lost", "pp", "p", faults: { evict: 1 }, idle: B,
                                     ttl: 3)],
        timer_for_next: [:idle, scenario("a process with two", "pp", "p")],
        look_after_cut: [:swallowed, scenario("a subscription cut", "p", "p", faults: { cut: 1 })],
        remember_cut: [:swallowed, scenario("a subscription cut", "p", "p", faults: { cut: 1 })],
        keep_ticket: [:order, scenario("a lost request", "p", "p", "p", faults: { lose: 1 },
                                       idle: T)],
        stand_by: [:idle, scenario("a freeze in line", "p", "p", "p", faults: { freeze_in_line: 1 },
                                   idle: B, ttl: 3), :look_every],
        pass_strays: [:swallowed, scenario("a lost request", "p", "p", faults: { lose: 1 },
                                           idle: T)],
        no_doubt: [:exclusion, scenario("nothing goes wrong", "p", "p", "p")],
        drain: [:swallowed, scenario("a process with two", "pp", "p")],
        poll_strangers: [:idle, scenario("an older client", "p", "o", idle: 1,
                                         ttl: 3), :look_every],
        window: [:starvation, scenario("never-ending, and an older one", "p", "p", "o",
                                       **starving)],
        fresh_value: [:exclusion, scenario("a lost request", "p", "p", faults: { lose: 1 },
                                           idle: T)],
        end_claims: [:idle, scenario("one gives up", "p", "p", faults: { give_up: 1 })],
        two_watch: [:idle, scenario("a lock kept for longer, a freeze", "p", "p", "p", idle: B,
                                    ttl: 4, faults: { keep: 1, freeze_in_line: 1 }), :look_every],
        replace_watch: [:idle, scenario("a lock kept for longer, giving up", "p", "p", "p", ttl: 3,
                                        faults: { keep: 1, give_up: 2 }),
                        :two_watch, :look_every]
      }
    end

    # Violations that no rule prevents.
    def known
      {
        fence:
          scenario(
            "the fence lost, the clock set back",
            "p",
            "p",
            faults: {
              forget: 1, clock_back: 1
            }
          ),
        exclusion: scenario("everything lost", "p", "p", faults: { flush: 1 }, idle: B)
      }
    end
  end
end
