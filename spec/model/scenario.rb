# frozen_string_literal: true

module Model
  # The rules. Each has a name by which it can be switched off.
  RULES = {
    table_first:
      "1: a value is in the table before its request leaves, and an early wake is remembered",
    subscribe_first: "2: no client queues before the subscription is confirmed",
    timer: "3: the first in line looks again when the time left is over",
    earliest_timer:
      "3: an answer does not put off an earlier look that a message set while it was under way",
    look_every: "3: and once a second in any case",
    uncalled: "3: if a client gets the lock without being called, the next one looks at once",
    go_on: "10: if one call of a script leaves work unfinished, the client asks again at once",
    timer_for_next: "3: a fired timer is set again, for those behind, whatever the result",
    look_after_cut: "3: after a resubscription all waiters look again",
    remember_cut: "3: so does, afterwards, a waiter with a request under way",
    stand_by: "3: the second in line is told to look when the first one's second is over",
    keep_ticket: "3: a waiter keeps its ticket",
    pass_strays: "4: a turn that no client waits for is passed on",
    no_doubt: "4: but never by a release",
    drain: "5: messages already read are handled before polling",
    poll_strangers: "6: a holder that is not plock's is watched by polling",
    window: "6: now and then the lock is left free for polling clients",
    two_watch: "9: when a lock is left free, or kept, two are told when to look",
    replace_watch: "9: if the first in line leaves, those behind it look",
    fresh_value: "7: a value whose reply is lost is never used again",
    end_claims: "8: a client that gives up lets its request end first",
    sweep: "s: holders whose time is over are not inside any more",
    keys_last: "s: the keys last as long as the longest place",
    one_mode: "s: all holders have one mode",
    within_limit: "s: and are fewer than the limit of the client that is let in",
    strict_order: "s: no client is let in past an earlier waiter",
    probe:
      "s: a client that only the first in line keeps out tells it, or removes it if it is deaf",
    watch_first: "s: otherwise it looks again in a second",
    call_several: "s: all who fit are called at once",
    baton_inside: "s: a called waiter has a place inside",
    claim_place: "s: and gives it up for the lease",
    claim_plainly: "s: even if it asks while it cannot hear",
    admitted_calls: "s: a client that is let in calls those that fit beside it",
    tell_change: "s: and is told when something changes for the waiters of its process",
    keep_look: "s: a process does not look later than it meant to before because of another answer",
    calls_stand_by: "s: when some are called, the next is told to look when their second is over",
    tell_kept: "s: when a place is kept, the first in line is told until when",
    tell_both: "s: and the second",
    leave_admits: "s: a client that leaves the line lets in those that it kept out",
    leave_tells: "s: or makes those behind it look",
    leave_place: "s: and gives back the place to which it has been called",
    downgrade_admits: "s: a writer that becomes a reader lets in those that fit beside it",
    only_live: "s: a lease whose time is over is not prolonged",
    clock_fence: "f: a fence is at least the server's time",
    leave_old: "f: a process that is told of a new primary leaves the old one",
    check_leases: "f: and has its leases checked at the new one",
    check_late: "f: also a lease that the old one grants afterwards",
    repeat_release: "f: a release that was not answered is repeated at the new primary",
    rest: "o: a client whose request could not be sent rests with its value and its place",
    try_again: "o: after a pause one of them tries again",
    resume: "o: the pause ends when the subscription is back",
    tell_all: "o: that an attempt has failed counts for all of its process",
    ask_again: "o: all that rest ask for their places when the server is back",
    in_turn: "o: one after another, by ticket",
    rest_behind: "o: and newcomers behind them",
    doubt_place: "o: also behind one whose request was under way when the queue may have been lost"
  }.freeze

  KINDS = { "p" => :patient, "i" => :impatient, "o" => :older }.freeze
  SHARES = { "r" => "r", "w" => "w", "1" => "s1", "2" => "s2", "3" => "s3" }.freeze

  # The clients, the faults, and the properties that must hold.
  #   processes: for each process, a string with a letter for each of its clients: p patient,
  #     i impatient (wait: 0), o older (polls). For a lock with several holders: r, w, or the number
  #     of places. An i before one of these means impatient.
  #   faults: how many faults of each kind may happen.
  #   victims: faults hit only processes whose clients all have this share; nil: all processes.
  #   idle: the longest time that the lock may have no holder while a client waits.
  #   delays: every step may take any time. Then only exclusion and fences are checked.
  #   saturated: clients contend endlessly; see World#may_finish?
  #   always: the number of the client that must always be able to get the lock.
  #   told: how long an old primary may serve before every running process knows the new one.
  #   quiet: failovers and outages happen only while no request is under way.
  #   strict: not even a failover excuses two holders.
  #   tries: how many dead waiters one call of a script passes over; nil: all.
  Scenario =
    Struct.new(
      :title, :processes, :faults, :victims, :idle, :ttl, :baton, :poll, :older_interval, :window,
      :second, :delays, :saturated, :always, :kinds, :shares, :shared, :homes, :seats, :tenants,
      :tries, :told, :quiet, :strict, :fails_over, :outage, keyword_init: true
    ) do
      def initialize(
        processes:, faults: {}, idle: 0, ttl: 2, baton: 1, poll: 1, older_interval: 1, told: 1,
        **options
      )
        super
        self.fails_over = %i[fail_over split drop].any? { |fault| faults.key?(fault) }
        self.outage = %i[away away_in_line down unsent silence].any? { |fault| faults.key?(fault) }
        members = processes.map { |process| process.scan(/i?[rw\d]|[pio]/) }
        self.kinds = members.flatten.map { |member| KINDS.fetch(member[0], :patient) }
        self.shares = members.flatten.map { |member| SHARES[member[-1]] }
        self.shared = shares.any?
        self.homes = members.each_with_index.flat_map { |process, n| [n] * process.size }
        self.tenants =
          processes.each_index.map { |n| homes.each_index.select { |i| homes[i] == n } }
        self.seats = homes.each_with_index.map { |n, i| tenants[n].index(i) }
      end
    end
end
