# frozen_string_literal: true

require_relative "history"
require_relative "plan"
require_relative "spread"

module Torture
  # Judges a history by what plock promises. Each check adds what it found, and counts what it looked at: one that had
  # nothing to look at has shown nothing.
  class Witness
    MARGIN = 50 * MILLISECOND
    AT_LEAST = Torture.ns(ATTEMPT_TIMEOUT)
    RELEASE = Torture.ns(RELEASE_TIMEOUT)
    TOGETHER = SECOND / 4 # those who are called together come in in any order, but soon
    IDLE = SECOND / 4 # nobody inside although somebody is queued, and nothing was done to anybody lately
    AFTERMATH = Torture.ns(Plan::LONGEST_TTL) + (SECOND * 6 / 5) # what was done to anybody is over: a lease and a baton

    attr_reader :history, :findings, :counts

    def initialize(history)
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
      end
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

    # A lease counts from the moment its holder knew of it, to its end, or the release, or the holder's death. A call that was
    # broken off at a moment when it could not write down that it left may have left at once.
    def end_of(call)
      over = call.left || (call.ended ? call.entered : history.life(call)&.died)
      [call.valid_until, over].compact.min
    end

    def exclusive(entered)
      exclusion(entered)
      fences(entered) { |timely| timely.each_cons(2) }
    end

    def exclusion(entered)
      last = nil
      entered.each do |call|
        next if end_of(call) <= call.entered

        counts[:leases] += 1
        overlap = last ? end_of(last) - call.entered : 0
        find(:overlap, "#{last} and #{call}: both valid for #{ms(overlap)}", last, call) if overlap.positive?
        last = call if last.nil? || end_of(call) > end_of(last)
      end
    end

    # --- fences ---

    # Those whose time was over when they came in may have been granted long before: only that no other has their fence counts.
    # The block names the pairs of those who came in in time, the earlier one first.
    def fences(entered)
      entered.group_by(&:fence).each do |fence, same|
        find(:fence, "the same fence #{fence}: #{same[0]} and #{same[1]}", *same) if same.size > 1
      end
      yield(entered.select { |call| call.entered < call.at_first }).each do |one, other|
        counts[:fences] += 1
        find(:fence, "#{other} has #{other.fence}, after #{one} with #{one.fence}", one, other) unless other.fence > one.fence
      end
    end

    # --- several at the same time, as far as they may ---

    def shares(entered)
      spread = Spread.new(entered, method(:end_of))
      counts[:leases] += spread.size
      spread.conflicts { |one, other| find(:overlap, "#{one.call} (#{one.mode}) and #{other.call} (#{other.mode}): inside together", one.call, other.call) }
      fences(entered) { |timely| successors(timely) }
    end

    # Each, and the one with the highest fence of those who had gone when it began to ask.
    def successors(timely)
      gone = timely.select(&:ended).sort_by(&:ended)
      highest = nil
      timely.sort_by(&:asked).filter_map do |call|
        highest = [highest, gone.shift].compact.max_by(&:fence) while gone.any? && gone.first.ended < call.asked
        [highest, call] if highest
      end
    end

    # --- once in so much time ---

    # Who raised inside made room for another.
    def once(entered)
      entered.reject { |call| %i[oops interrupted].include?(call.outcome) }.each_cons(2) do |one, other|
        counts[:once] += 1
        early = one.asked + Torture.ns(WITHIN) - other.entered
        find(:twice, "#{other} ran #{ms(early)} too early after #{one}", one, other) if early.positive?
      end
    end

    # --- budgets ---

    # Patience and a margin; and where the worker was stopped, or had other things to do, that much later.
    def late_by(call, from, to, budget)
      stops = history.life(call).stops.select { |began, over| began < to && from < over }
      due = [from + budget, *stops.map(&:last)].max
      to - due - MARGIN - history.excused(call, due, to)
    end

    def budget(call)
      came_back = call.entered || call.ended
      return if call.child? || came_back.nil? # no heart beats in a child; a call that never ends keeps its worker from ending

      counts[:budgets] += 1
      budget = [call.wait, AT_LEAST].max
      budget = [budget, call.interrupt].min if call.interrupt
      late = late_by(call, call.asked, came_back, budget)
      find(:budget, "#{call} (#{call.outcome}): #{ms(late)} later than its #{ms(budget)} and the margin", call) if late.positive?
    end

    def release(call)
      return if call.child? || call.left.nil? || call.ended.nil?

      late = late_by(call, call.left, call.ended, RELEASE)
      find(:budget, "#{call}: the release took #{ms(late)} longer than it may", call) if late.positive?
    end

    # Nor is patience cut short.
    def patience(call)
      return unless call.outcome == :refused && call.way != ONCE && call.ended - call.asked < call.wait

      find(:impatience, "#{call} gave up #{ms(call.asked + call.wait - call.ended)} early", call)
    end

    # --- order ---

    # A waiter that nothing was done to is served before everybody who began to ask when it was queued already.
    def order(calls, entered)
      times = entered.map(&:entered)
      calls.each do |waiter|
        served = until_when(waiter)
        next unless waiter.queued && served && waiter.queued < served
        next unless history.undisturbed?(waiter, waiter.asked, served)

        counts[:waiters] += 1
        first = times.bsearch_index { |time| time > waiter.queued } or next
        entered[first..].each do |other|
          break if other.entered >= served
          next if other.asked <= waiter.queued || together?(waiter, other, served)

          find(:order, "#{other} was served #{ms(served - other.entered)} before #{waiter}, which had been queued " \
                       "#{ms(other.asked - waiter.queued)} when it began to ask", waiter, other)
          break
        end
      end
    end

    def together?(waiter, other, served)
      waiter.way.mode && served - other.entered - history.excused(waiter, other.entered, served) < TOGETHER
    end

    # Until then nobody who came later may have been served.
    def until_when(waiter)
      return waiter.entered if waiter.entered
      return unless %i[refused interrupted].include?(waiter.outcome)

      [waiter.ended, waiter.asked + waiter.wait, *(waiter.asked + waiter.interrupt if waiter.interrupt)].min
    end

    # --- no lost turn ---

    # Somebody is queued, nothing was done to anybody for a while, and yet nobody is inside.
    def idleness(calls, entered)
      queued = calls.select { |call| call.queued && until_when(call) }
      taken_until = nil
      entered.each do |call|
        idle(taken_until, call.entered, queued, calls) if taken_until && call.entered - taken_until > IDLE
        taken_until = [taken_until, call.ended || gone_by(call)].compact.max
      end
    end

    # Who asks for several has one while it waits for the next.
    def may_hold?(call, from, to)
      call.way.at_once > 1 && call.asked < to && from < (call.ended || gone_by(call))
    end

    # When the store lets go of a lease whose holder died: its holder counted less than its time to live.
    def gone_by(call) = (call.valid_until || call.asked + call.wait) + (call.ttl / 50) + (10 * MILLISECOND)

    def idle(from, to, queued, calls)
      return if history.disturbances.any? { |began, over| began < to && from < over + AFTERMATH }

      # A child that was forked is gone as soon as it gives up: a waiter that dies, with the turn perhaps on its way to it.
      last = calls.select { |call| call.ended&.between?(from - MARGIN, from + MARGIN) }
      return if last.any?(&:child?) || calls.any? { |call| may_hold?(call, from, to) }

      waiter = queued.find do |call|
        [call.queued, from].max + IDLE + history.excused(call, from, to) < [until_when(call), to].min
      end
      find(:idle, "#{waiter} was queued, and nobody was inside for #{ms(to - from)}", waiter, *(last - [waiter])) if waiter
    end
  end
end
