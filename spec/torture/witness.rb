# frozen_string_literal: true

require_relative "history"
require_relative "plan"
require_relative "spread"

module Torture
  # Judges a history by the promises of plock. Each check adds its findings, and counts the cases
  # that it has checked, because a check without any case shows nothing.
  class Witness
    MARGIN = 50 * MILLISECOND
    AT_LEAST = Torture.ns(ATTEMPT_TIMEOUT)
    RELEASE = Torture.ns(RELEASE_TIMEOUT)
    COMMAND = Torture.ns(COMMAND_TIMEOUT) # the budget of an adoption, which never waits
    # Waiters that are admitted together may enter in any order within this time.
    TOGETHER = SECOND / 4
    # If nothing was disturbed, a call must not stay queued for longer than this while the lock
    # has no holder.
    IDLE = SECOND / 4
    # How long the effects of a disturbance last: the time of a lease and that of a baton.
    AFTERMATH = Torture.ns(Plan::LONGEST_TTL) + (SECOND * 6 / 5)

    # Within this time after a call returned, its place in the queue and its lease must be gone.
    # If its process was disturbed, the time begins when the disturbance ends.
    SOON = SECOND * 3 / 2
    # Within this time after the server forgot a key, each waiter has asked again, and those whose
    # turn it is have entered.
    REMEMBERED = SECOND * 5 / 4
    UNHEARD = SECOND # within this time, a waiter that can ask has entered the queue

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

    # When a lease stops counting. It counts from the moment when its holder knew of it. It stops
    # at its expiry, its release, the holder's death or the report of its loss. Another check
    # judges whether that report is true. If a call ended without a record of when it left its
    # block, it may have left the block as soon as it entered.
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

    # May the server have forgotten the first call's lease before it admitted the other call?
    def forgotten_between?(one, other)
      history.oblivions(one.key, one.asked, other.entered, all: true).any? do |oblivion|
        granted_by?(one, oblivion.to) && other.entered >= oblivion.from
      end
    end

    # May the call have been granted its lock by this moment? A holder learns of the grant at
    # once, unless its process could not run.
    def granted_by?(call, moment)
      call.asked < moment && late_by(call, moment, call.entered, 0) <= 0
    end

    # Was one of the calls granted its lock around the time when the server forgot the key? Then
    # the two calls may have entered in any order.
    def about_oblivion?(one, other)
      [one, other].any? do |call|
        oblivions = history.oblivions(call.key, call.asked, call.entered, all: true)
        oblivions.any? { |oblivion| granted_by?(call, oblivion.to) }
      end
    end

    # --- fences ---

    # Checks the fences. No two calls may have the same fence. The order is not checked for calls
    # that entered after their lease's end, because they may have been granted long before. The
    # block receives the calls that entered in time, and returns pairs of them, with the earlier
    # call first.
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

    # --- no more holders at the same time than a key allows ---

    def shares(entered)
      spread = Spread.new(entered, method(:end_of))
      counts[:leases] += spread.size
      spread.conflicts(method(:forgotten_between?)) do |*parts|
        names = parts.map { |part| "#{part.call} (#{part.mode})" }
        find(:overlap, "#{names.join(" and ")}: inside together", *parts.map(&:call))
      end
      fences(entered) { |timely| successors(timely) }
    end

    # Pairs each call with a call that had ended before it asked. Of several such calls, takes the
    # call with the highest fence.
    def successors(timely)
      gone = timely.select(&:ended).sort_by(&:ended)
      highest = nil
      timely.sort_by(&:asked).filter_map do |call|
        highest = [highest, gone.shift].compact.max_by(&:fence) while gone.any? &&
                                                                      gone.first.ended < call.asked
        [highest, call] if highest
      end
    end

    # --- at most one run in each window ---

    # A call that raised in its block does not count, so another call may run.
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

    # How late the call is after its budget and the margin. The time in which the worker was
    # stopped or busy does not count.
    def late_by(call, from, to, budget)
      due = [from + budget, *stops(call, from, to).map(&:last)].max
      to - due - @margin - history.excused(call, due, to)
    end

    # When the call's process was stopped. Stops of forked children are not recorded.
    def stops(call, from, to)
      (history.life(call)&.stops || []).select { |began, over| began < to && from < over }
    end

    # How long after the beginning of the call the interrupt arrives, in nanoseconds. If the process
    # is stopped, the thread that interrupts the call wakes later by the time of the stop, because
    # ppoll(2) then continues with the remaining time.
    def interrupted_after(call, came_back)
      call.interrupt +
        stops(call, call.asked, came_back).sum do |began, over|
          [over, came_back].min - [began, call.asked].max
        end
    end

    def budget(call)
      came_back = call.entered || call.ended
      # A child has no heart that measures its delays. If its call never ends, that is found in
      # another way: its worker hangs.
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

    # Was the caller undisturbed, during the call and shortly before it, and could both its
    # process and the server run?
    def well?(call, from, to)
      since = from - LATELY
      history.undisturbed?(call, since, to) && !history.stalled?(call, since, to) &&
        history.slow(since, to).zero?
    end

    LATELY = SECOND # within this time, workers connect again, even over TLS

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

    # No lease is broken in this test, so a lease is lost only if it expires or if the server
    # forgets it. A call of once has no lease, so its end is unknown.
    def losses(call)
      return if call.way == ONCE

      (call.lost || []).each do |at, valid_until|
        next unless valid_until && at < valid_until
        next if history.oblivions(call.key, call.asked, at).any?

        find(:lost, "#{call}: told that it is lost #{ms(valid_until - at)} before its end", call)
      end
    end

    # --- a call that returned leaves nothing behind ---

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

    # The moment by which the call must be gone from the server: SOON after its end. A blow that
    # begins before this moment may move it to SOON after the end of the blow.
    def gone_from_server(call, last)
      blows = history.suffered(call, call.asked, last).sort_by { |_, from, _| from }
      blows.reduce(call.ended + SOON) do |due, (_, from, to)|
        from < due ? [due, to + SOON].max : due
      end
    end

    WORDS = { ghost: "in the queue", held: "the holder" }.freeze

    # --- a dump can be adopted once ---

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

    # This key has permits for all lanes, so a lane waits only for a connection. The check
    # compares the lanes of each worker.
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

    # The call waited for a key that other calls held, but was never seen in the queue.
    def unheard(call)
      return unless call.outcome == :refused && call.way.at_once == 1
      return if call.seen || call.wait < 2 * UNHEARD || Torture.plain?(call.lane)
      return unless history.undisturbed?(call, call.asked, call.ended)
      return if history.oblivions(call.key, call.asked, call.ended).any?

      late = call.ended - call.asked - UNHEARD - history.excused(call, call.asked, call.ended)
      return unless late.positive?

      find(:unheard, "#{call} waited #{ms(call.ended - call.asked)}, never in the queue", call)
    end

    # A call must not give up before its patience ends.
    def patience(call)
      unless call.outcome == :refused && call.way != ONCE && call.ended - call.asked < call.wait
        return
      end

      find(:impatience, "#{call} gave up #{ms(call.asked + call.wait - call.ended)} early", call)
    end

    # --- order ---

    # An undisturbed waiter must be served before all calls that asked when the waiter was already
    # queued.
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

    # The moment from which the waiter counts as queued. If the server has forgotten the key, the
    # waiter gets more time (REMEMBERED) to come back into the queue.
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

    # Before this moment, no call that asked later may be served.
    def until_when(waiter)
      return waiter.entered if waiter.entered
      return unless %i[refused interrupted].include?(waiter.outcome)

      [
        waiter.ended, waiter.asked + waiter.wait,
        *(waiter.asked + waiter.interrupt if waiter.interrupt)
      ].min
    end

    # --- no lost turn ---

    # A call must not stay queued while the lock has no holder, unless there was a disturbance
    # shortly before.
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

    # May this call hold the lock without being inside? A call for several keys holds one key
    # while it waits for the next. A dumped lease is held until it is adopted.
    def may_hold?(call, from, to)
      return call.asked < to && from < gone_by(call) if call.handed

      call.way.at_once > 1 && call.asked < to && from < (call.ended || gone_by(call))
    end

    FORGOTTEN_BEFORE = 2 * REMEMBERED

    # The moment by which the store has dropped the lease of a dead holder. That is later than
    # `valid_until`, because the store counts the whole ttl, and the holder subtracts a margin.
    def gone_by(call) =
      (call.valid_until || call.asked + call.wait) + (call.ttl / 50) + (10 * MILLISECOND)

    def idle(from, to, queued, calls)
      return if history.disturbances.any? { |began, over| began < to && from < over + AFTERMATH }

      # When a forked child gives up, it exits at once. If the server has just given it the turn,
      # no process passes that turn on. So this check ignores the moments after such an exit.
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
