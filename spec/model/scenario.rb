# frozen_string_literal: true

module Model
  # The rules, each by the name under which it can be switched off.
  RULES = {
    table_first: "1: a value is in the table before its request leaves, and a wake that comes early is remembered",
    subscribe_first: "2: nobody queues before the subscription is confirmed",
    timer: "3: the first in line looks again when the time left is over",
    earliest_timer: "3: an answer does not put off what a message set earlier while it was under way",
    look_every: "3: and once a second in any case",
    uncalled: "3: where one gets the lock without being called, the next one looks at once",
    go_on: "10: what one call of a script leaves unfinished is asked for again at once",
    timer_for_next: "3: when it has fired it is set again, for those behind, whatever comes of it",
    look_after_cut: "3: after a resubscription all waiters look again",
    remember_cut: "3: so does, afterwards, one whose request was under way",
    stand_by: "3: the second in line is told to look when the first one's second is over",
    keep_ticket: "3: a waiter keeps its ticket",
    pass_strays: "4: a turn that nobody waits for is passed on",
    no_doubt: "4: but never by a release",
    drain: "5: messages already read are handled before polling",
    poll_strangers: "6: a holder that is not plock's is watched by polling",
    window: "6: now and then the lock is left free for those who poll",
    two_watch: "9: when a lock is left free, or kept, two are told when to look",
    replace_watch: "9: the first in line who leaves lets those who follow look",
    fresh_value: "7: a value whose reply is lost is never used again",
    end_claims: "8: one who gives up lets its request come to an end first",
    sweep: "s: those whose time is over are inside no more",
    keys_last: "s: the keys last as long as the one who stays longest",
    one_mode: "s: all who are inside have one mode",
    within_limit: "s: and are fewer than the limit that brings who is let in",
    strict_order: "s: nobody is let in past one who waits before him",
    probe: "s: whom only the first in line keeps out tells him, and takes him out where nobody hears",
    watch_first: "s: and else looks again in a second",
    call_several: "s: all who fit are called at once",
    baton_inside: "s: who is called has his place inside",
    claim_place: "s: and gives it up for the lease",
    claim_plainly: "s: also where he asks while he cannot hear",
    admitted_calls: "s: who is let in calls those who fit beside him",
    tell_change: "s: and is told when something changes for those who wait in his process",
    keep_look: "s: a process does not look later than it meant to before because of another answer",
    calls_stand_by: "s: when some are called, the next is told to look when their second is over",
    tell_kept: "s: when a place is kept, the first in line is told until when",
    tell_both: "s: and the second",
    leave_admits: "s: who leaves the line lets in those whom he kept out",
    leave_tells: "s: or has those who follow look",
    leave_place: "s: and gives back the place to which he has been called",
    downgrade_admits: "s: a writer who turns reader lets in those who fit beside him",
    only_live: "s: a lease whose time is over is not prolonged"
  }.freeze

  KINDS = { "p" => :patient, "i" => :impatient, "o" => :older }.freeze
  SHARES = { "r" => "r", "w" => "w", "1" => "s1", "2" => "s2", "3" => "s3" }.freeze

  # Who takes part, what may go wrong, and what must hold nevertheless.
  #
  # processes: number of clients in each; kind of client by letter: p patient, i impatient (wait:
  # 0), o older (polls). Of a lock with several holders: r, w, or the number of places; an i before
  # it says impatient. faults: how many of each kind; victims: the share of those whose processes
  # they hit, where not all. idle: longest time without a holder while somebody waits. delays:
  # everything may take as long as it likes; then only exclusion and fences are checked. saturated:
  # contention without end, see World#may_finish?. always: the client, by number, who must be able
  # to get the lock whatever has happened. tries: how many who are dead one call of a script passes
  # over; nil: all.
  Scenario =
    Struct.new(
      :title, :processes, :faults, :victims, :idle, :ttl, :baton, :poll, :older_interval, :window,
      :second, :delays, :saturated, :always, :kinds, :shares, :shared, :homes, :seats, :tenants,
      :tries, keyword_init: true
    ) do
      def initialize(
        processes:, faults: {}, idle: 0, ttl: 2, baton: 1, poll: 1, older_interval: 1, **options
      )
        super
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
