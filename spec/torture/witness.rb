# frozen_string_literal: true

require_relative "history"
require_relative "plan"
require_relative "spread"

module Torture
  # Judges a history by the promises of plock. Each check adds its findings, and counts its cases: a
  # check without cases has shown nothing.
  class Witness
    MARGIN = 50 * MILLISECOND
    AT_LEAST = Torture.ns(ATTEMPT_TIMEOUT)
    RELEASE = Torture.ns(RELEASE_TIMEOUT)
    COMMAND = Torture.ns(COMMAND_TIMEOUT) # an adoption does not wait for others
    # Waiters that are called together may enter in any order within this time.
    TOGETHER = SECOND / 4
    # Without a disturbance, a call must not be queued for longer while no call is inside.
    IDLE = SECOND / 4
    # After this time the effects of a disturbance are over: a lease and a baton.
    AFTERMATH = Torture.ns(Plan::LONGEST_TTL) + (SECOND * 6 / 5)

    # Within this time a call's place in the queue and its lease must be gone, after it
    # returned, or after its process could reach the server again.
    SOON = SECOND * 3 / 2
    # After the server forgot a key, each waiter has looked by itself within this time, and those
    # whose turn it is are inside.
    REMEMBERED = SECOND * 5 / 4
    UNHEARD = SECOND # a waiter is in the queue by then, unless it is kept from asking

    attr_reader :history, :findings, :counts

    def initialize(history, margin: MARGIN)
      @margin = margin
      @history = history
      @findings = history.findings.dup
      @counts = Hash.new(0).merge(history.counts)
      @by_key = history.calls.group_by(&:key)
    end

    def judge
      count_calls
      history.calls.each do |call|
        budget(call)
        patience(call)
        release(call)
        failures(call)
        losses(call)
        remains(call)
        unheard(call)
      end
      handovers
      starvation
      @by_key.each_value do |calls|
        entered = calls.select(&:entered).sort_by(&:entered)
        next once(entered) if calls.first.way == ONCE

        calls.first.way.mode ? shares(entered) : exclusive(entered)
        order(calls, entered)
        idleness(calls, entered)
      end
      self
    end

    def kinds = findings.map(&:kind).uniq

    private

    def find(kind, text, *calls) = findings << Finding.new(kind, text, calls)

    def ms(span) = format("%.1f ms", span.fdiv(MILLISECOND))

    def count_calls
      history.calls.each { |call| counts[call.outcome || :cut_short] += 1 }
      counts[:entered] = history.calls.count(&:entered)
      counts[:from_children] = history.calls.count(&:child?)
      counts[:calls] = history.calls.size
    end

    # --- no two valid leases of a key at the same time ---

    # A lease counts from the moment when its holder knew it. It ends with its expiry, the release,
    # the holder's death, or the report of its loss, whose truth another check judges. A call that
    # was broken off before it could write down its end may have left at once.
    def end_of(call)
      over = call.left || (call.ended ? call.entered : history.life(call)&.died)
      [call.valid_until, over, call.lost&.map(&:first)&.min].compact.min
    end

    def exclusive(entered)
      exclusion(entered)
      fences(entered) { |timely| timely.each_cons(2) }
    end

    def exclusion(entered)
      inside = []
      entered.each do |call|
        next if end_of(call) <= call.entered

        counts[:leases] += 1
        inside.reject! { |other| end_of(other) <= call.entered }
        rival = inside.find { |other| !forgotten_between?(other, call) }
        overlap(rival, call) if rival
        inside << call
      end
    end

    def overlap(one, other)
      together = ms(end_of(one) - other.entered)
      find(:overlap, "#{one} and #{other}: both valid for #{together}", one, other)
    end

    # May the server have forgotten the first of them when it admitted the other?
    def forgotten_between?(one, other)
      history.oblivions(one.key, one.asked, other.entered, all: true).any? do |oblivion|
        granted_by?(one, oblivion.to) && other.entered >= oblivion.from
      end
    end

    # May it have been granted by then? A holder knows at once, unless it was kept from running.
    def granted_by?(call, moment)
      call.asked < moment && late_by(call, moment, call.entered, 0) <= 0
    end

    # Was one of them granted about when the server forgot? Then they may enter in any order.
    def about_oblivion?(one, other)
      [one, other].any? do |call|
        oblivions = history.oblivions(call.key, call.asked, call.entered, all: true)
        oblivions.any? { |oblivion| granted_by?(call, oblivion.to) }
      end
    end

    # --- fences ---

    # Calls that entered after their lease had expired may have been granted long before: no other
    # call may have their fence. The block receives the pairs of calls that entered in time, the
    # earlier one first.
    def fences(entered)
      entered.group_by(&:fence).each do |fence, same|
        find(:fence, "the same fence #{fence}: #{same[0]} and #{same[1]}", *same) if same.size > 1
      end
      yield(entered.select { |call| call.entered < call.at_first }).each do |one, other|
        next if about_oblivion?(one, other)

        counts[:fences] += 1
        unless other.fence > one.fence
          find(:fence, "#{other} has #{other.fence}, after #{one} with #{one.fence}", one, other)
        end
      end
    end

    # --- several at the same time, as far as they may ---

    def shares(entered)
      spread = Spread.new(entered, method(:end_of))
      counts[:leases] += spread.size
      spread.conflicts(method(:forgotten_between?)) do |*parts|
        names = parts.map { |part| "#{part.call} (#{part.mode})" }
        find(:overlap, "#{names.join(" and ")}: inside together", *parts.map(&:call))
      end
      fences(entered) { |timely| successors(timely) }
    end

    # Each call, and the one with the highest fence of those that had left when it began to ask.
    def successors(timely)
      gone = timely.select(&:ended).sort_by(&:ended)
      highest = nil
      timely.sort_by(&:asked).filter_map do |call|
        highest = [highest, gone.shift].compact.max_by(&:fence) while gone.any? &&
                                                                      gone.first.ended < call.asked
        [highest, call] if highest
      end
    end

    # --- once in so much time ---

    # A call that raised inside made room for another one.
    def once(entered)
      entered
        .reject { |call| %i[oops interrupted].include?(call.outcome) }
        .each_cons(2) do |one, other|
          next if forgotten_between?(one, other)

          counts[:once] += 1
          early = one.asked + Torture.ns(WITHIN) - other.entered
          if early.positive?
            find(:twice, "#{other} ran #{ms(early)} too early after #{one}", one, other)
          end
        end
    end

    # --- budgets ---

    # The patience and a margin, plus the time in which the worker was stopped or busy.
    def late_by(call, from, to, budget)
      due = [from + budget, *stops(call, from, to).map(&:last)].max
      to - due - @margin - history.excused(call, due, to)
    end

    # Of a forked child nothing is known.
    def stops(call, from, to)
      (history.life(call)&.stops || []).select { |began, over| began < to && from < over }
    end

    # When the interrupt comes: a sleeping thread may sleep longer by the time in which its process
    # was stopped (ppoll(2) starts again with the remaining time).
    def interrupted_after(call, came_back)
      call.interrupt +
        stops(call, call.asked, came_back).sum do |began, over|
          [over, came_back].min - [began, call.asked].max
        end
    end

    def budget(call)
      came_back = call.entered || call.ended
      # no heart beats in a child; a call that never ends keeps its worker from ending
      return if call.child? || came_back.nil?

      counts[:budgets] += 1
      budget = [call.wait, call.way == ADOPT ? COMMAND : AT_LEAST].max
      budget = [budget, interrupted_after(call, came_back)].min if call.interrupt
      late = late_by(call, call.asked, came_back, budget)
      if late.positive?
        find(
          :budget,
          "#{call} (#{call.outcome}): #{ms(late)} later than its #{ms(budget)} and the margin", call
        )
      end
    end

    def release(call)
      return if call.child? || call.left.nil? || call.ended.nil?

      late = late_by(call, call.left, call.ended, RELEASE)
      if late.positive?
        find(:budget, "#{call}: the release took #{ms(late)} longer than it may", call)
      end
    end

    # --- no call fails on a healthy server ---

    # The caller was undisturbed, during and shortly before the call, and neither its process nor
    # the server was kept from running.
    def well?(call, from, to)
      since = from - LATELY
      history.undisturbed?(call, since, to) && !history.stalled?(call, since, to) &&
        history.slow(since, to).zero?
    end

    LATELY = SECOND # all disconnected workers connect again, over TLS too

    def failures(call)
      return unless call.ended

      failed = call.outcome == :failed && call.lost.nil?
      failure(:failure, call, "failed") if failed && well?(call, call.asked, call.ended)
      return unless call.entered && well?(call, call.left || call.entered, call.ended)

      counts[:releases] += 1
      failure(:unreleased, call, "could not be released") if call.unreleased
      return unless call.unextended && well?(call, call.entered, call.ended)

      failure(:failure, call, "could not be extended")
    end

    def failure(kind, call, what)
      find(
        kind, "#{call} #{what}, although nothing was done to the server or to its way there", call
      )
    end

    # No break happens here: a lease is lost only at its expiry, or if the server forgets it. A once
    # has no lease, so its end is not known.
    def losses(call)
      return if call.way == ONCE

      (call.lost || []).each do |at, valid_until|
        next unless valid_until && at < valid_until
        next if history.oblivions(call.key, call.asked, at).any?

        find(:lost, "#{call}: told that it is lost #{ms(valid_until - at)} before its end", call)
      end
    end

    # --- a call that returned leaves nothing ---

    def remains(call)
      return if call.ended.nil? || call.child? || call.way == ONCE || call.handed
      return if (life = history.life(call)).nil? || (life.killed && life.died < call.ended + SOON)

      counts[:remains] += 1
      { waited: :ghost, held: :held }.each do |name, kind|
        last = call[name] or next
        due = gone_from_server(call, last)
        busy = history.excused(call, due - SOON, last) + history.slow(due - SOON, last)
        late = last - due - @margin - busy
        next unless late.positive?

        after = ms(last - call.ended)
        find(kind, "#{call} was still #{WORDS[kind]} #{after} after it came back", call)
      end
    end

    # By then it has had SOON without a blow.
    def gone_from_server(call, last)
      blows = history.suffered(call, call.asked, last).sort_by { |_, from, _| from }
      blows.reduce(call.ended + SOON) do |due, (_, from, to)|
        from < due ? [due, to + SOON].max : due
      end
    end

    WORDS = { ghost: "in the queue", held: "the holder" }.freeze

    # --- a dump is good for one adoption ---

    def handovers
      adoptions = history.calls.select(&:adopts).group_by { |call| [call.key, call.adopts] }
      adoptions.each do |(_, fence), calls|
        counts[:handovers] += 1
        inside = calls.select(&:entered).sort_by(&:entered)
        names = inside.join(" and ")
        twice = inside.each_cons(2).any? { |one, other| !forgotten_between?(one, other) }
        find(:adopted, "both adopted fence #{fence}: #{names}", *inside) if twice
        inside.reject { |call| call.fence > fence }.each do |call|
          find(:fence, "#{call} adopted fence #{fence} and has #{call.fence}", call)
        end
      end
    end

    # --- each lane gets its share of the connections ---

    # The key has room for all, so a lane waits only for its turn at a connection. The check
    # compares the lanes of a worker with one another.
    def starvation
      wide = history.calls.select { |call| call.way == WIDE && !call.child? }
      wide.group_by { |call| [call.life, call.lane] }
          .transform_values { |calls| calls.count(&:entered) }
          .group_by { |(life, _), _| life }
          .each { |life, lanes| compare(life, lanes.to_h { |(_, lane), served| [lane, served] }) }
    end

    def compare(life, served)
      (worst, least), (best, most) = served.minmax_by(&:last)
      return if most < OFTEN

      counts[:lanes] += served.size
      return unless least * UNFAIR < most

      find(
        :starved, "worker #{life} served lane #{worst} #{least} times, lane #{best} #{most} times"
      )
    end

    OFTEN = 200
    UNFAIR = 10

    # --- each waiter reaches the queue ---

    # It could not acquire a key that others had, but never stood in the queue.
    def unheard(call)
      return unless call.outcome == :refused && call.way.at_once == 1
      return if call.seen || call.wait < 2 * UNHEARD || Torture.plain?(call.lane)
      return unless history.undisturbed?(call, call.asked, call.ended)
      return if history.oblivions(call.key, call.asked, call.ended).any?

      late = call.ended - call.asked - UNHEARD - history.excused(call, call.asked, call.ended)
      return unless late.positive?

      find(:unheard, "#{call} waited #{ms(call.ended - call.asked)}, never in the queue", call)
    end

    # No call gives up before its patience is over.
    def patience(call)
      unless call.outcome == :refused && call.way != ONCE && call.ended - call.asked < call.wait
        return
      end

      find(:impatience, "#{call} gave up #{ms(call.asked + call.wait - call.ended)} early", call)
    end

    # --- order ---

    # An undisturbed waiter is served before all calls that began to ask when it was queued already.
    def order(calls, entered)
      times = entered.map(&:entered)
      calls.each do |waiter|
        served = until_when(waiter)
        queued = queued_since(waiter, served) if served
        next unless queued && queued < served
        next unless history.undisturbed?(waiter, waiter.asked, served)

        counts[:waiters] += 1
        first = times.bsearch_index { |time| time > queued } or next
        entered[first..].each do |other|
          break if other.entered >= served
          next if other.asked <= queued || other.way == ADOPT || together?(waiter, other, served)

          find(:order, "#{other} was served #{ms(served - other.entered)} before #{waiter}, " \
                       "which had been queued #{ms(other.asked - queued)} when it began to ask",
               waiter, other)
          break
        end
      end
    end

    # A waiter that the server forgets is queued again soon.
    def queued_since(waiter, served)
      return unless waiter.queued

      last = history.oblivions(waiter.key, waiter.asked, served).map(&:to).max
      return waiter.queued unless last

      again = [waiter.queued, last].max + REMEMBERED
      again + history.excused(waiter, last, again)
    end

    def together?(waiter, other, served)
      waiter.way.mode &&
        served - other.entered - history.excused(waiter, other.entered, served) < TOGETHER
    end

    # Until then no later call may have been served.
    def until_when(waiter)
      return waiter.entered if waiter.entered
      return unless %i[refused interrupted].include?(waiter.outcome)

      [
        waiter.ended, waiter.asked + waiter.wait,
        *(waiter.asked + waiter.interrupt if waiter.interrupt)
      ].min
    end

    # --- no lost turn ---

    # A call is queued without a recent disturbance, and yet no call is inside.
    def idleness(calls, entered)
      queued = calls.select { |call| call.queued && until_when(call) }
      taken_until = nil
      entered.each do |call|
        if taken_until && call.entered - taken_until > IDLE
          idle(taken_until, call.entered, queued, calls)
        end
        taken_until = [taken_until, call.ended || gone_by(call)].compact.max
      end
    end

    # A call for several keys holds one while it waits for the next. A dumped lease is held until it
    # is adopted.
    def may_hold?(call, from, to)
      return call.asked < to && from < gone_by(call) if call.handed

      call.way.at_once > 1 && call.asked < to && from < (call.ended || gone_by(call))
    end

    FORGOTTEN_BEFORE = 2 * REMEMBERED

    # When the store drops a lease of a dead holder: the holder counted less than its time to live.
    def gone_by(call) =
      (call.valid_until || call.asked + call.wait) + (call.ttl / 50) + (10 * MILLISECOND)

    def idle(from, to, queued, calls)
      return if history.disturbances.any? { |began, over| began < to && from < over + AFTERMATH }

      # A forked child is gone as soon as it gives up: a waiter that dies, maybe with the turn on
      # its way to it.
      last = calls.select { |call| call.ended&.between?(from - MARGIN, from + MARGIN) }
      return if last.any?(&:child?) || calls.any? { |call| may_hold?(call, from, to) }

      waiter = queued.find do |call|
        forgotten = history.oblivions(call.key, from - FORGOTTEN_BEFORE, to).map(&:to)
        patience = forgotten.any? ? REMEMBERED : IDLE
        due = [call.queued, from, *forgotten].max + patience + history.excused(call, from, to)
        due < [until_when(call), to].min
      end
      if waiter
        find(
          :idle, "#{waiter} was queued, and no call was inside for #{ms(to - from)}", waiter,
          *(last - [waiter])
        )
      end
    end
  end
end
