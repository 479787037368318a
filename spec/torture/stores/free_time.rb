# frozen_string_literal: true

require_relative "../history"

module Torture
  module Stores
    # How long a key was free while a waiter had to wait for it. A time of which nothing is known
    # counts as taken. A time in which the waiter itself could not ask does not count as waiting.
    class FreeTime
      # The longest time from a grant until its holder knows of it.
      GRANT = SECOND / 20

      # The longest time from a server's return until all waiters ask again.
      RECOVERY = SECOND
      RECONNECTING = SECOND / 2

      # A lease ends later on the store than its holder believes: by SLACK and by the ttl divided
      # by DRIFT.
      SLACK = SECOND / 20
      DRIFT = 50

      # @param calls [Array<Call>] all calls for one key
      def initialize(calls, history, kind)
        @calls = calls
        @history = history
        @kind = kind
        @taken = calls.to_h { |call| [call, spans_of(call)] }
        @taken.compare_by_identity
        @downs = history.chronicle.downs.map { |from, to| [from, to + RECOVERY] }
        @standstill = kind.alone ? standstill : []
      end

      # @return [Array(Integer, Integer)] the longest time that the key was free without a break,
      #   in nanoseconds, and when that time began
      def of(call)
        from = call.asked
        return [0, from] if call.way.at_once > 1 # nothing tells for which key it waited

        to = [call.entered || call.ended || died(call), call.asked + call.wait].compact.min
        return [0, from] if to - from <= GRANT

        longest_gap(call, from, to)
      end

      private

      def longest_gap(call, from, to)
        best = [0, from]
        reached = from
        [*covered(call, from, to), [to, to]].sort.each do |began, over|
          if began > reached
            gap = [began, to].min - reached
            gap -= @history.excused(call, reached, [began, to].min)
            best = [gap, reached] if gap > best.first
          end
          reached = [reached, over].max
          break if reached >= to
        end
        best
      end

      def covered(call, from, to)
        others = @calls.reject { |other| other.equal?(call) }
                       .flat_map { |other| @taken.fetch(other) + place_of(other, call) }
        [*others, *own_trouble(call), *@downs, *@standstill].select do |began, over|
          began < to && over > from
        end
      end

      # The times in which the waiter itself could not ask.
      def own_trouble(call)
        life = @history.life(call) or return []
        troubles(life).map { |from, to| [from, to + RECONNECTING] }
      end

      def standstill
        stops = @history.chronicle.lives.each_value.flat_map(&:stops)
        stops.map { |from, to| [from, to + RECONNECTING] }
      end

      # The times in which another waiter, which asked earlier, keeps its place although it cannot
      # reach the store.
      def place_of(other, call)
        return [] if @kind.place_s.zero? || other.asked > call.asked + RECONNECTING

        waited_to = other.entered || other.ended || died(other)
        silenced(other).select { |from, _| from <= waited_to }.map do |from, to|
          [from, [to, waited_to].min + Torture.ns(@kind.place_s)]
        end
      end

      # The times in which the call could not reach the store.
      def silenced(call)
        life = @history.life(call) or return []
        death = life.died if call.ended.nil?
        [*troubles(life), *([[death, death]] if death)]
      end

      def troubles(life)
        [*life.stops, *life.cuts, *@history.chronicle.darks.fetch(life.slot, [])]
      end

      def died(call) = @history.life(call)&.died || call.asked + call.wait

      # --- when a call has the key, or may have it ---

      def spans_of(call)
        spans = [entered_span(call), doubt_of(call), around_its_end(call)].compact
        return spans if call.way.at_once == 1 || @kind.whole

        # A call for several keys holds one key while it waits for the next.
        [[call.asked, [*spans.map(&:last), call.ended || died(call)].max]]
      end

      def entered_span(call) = ([granted_at(call), given_back_at(call)] if call.entered)

      # The earliest possible time of the grant. A process that could not run may have learnt of it
      # much later.
      def granted_at(call)
        stops = @history.life(call)&.stops || []
        stops = stops.select { |from, to| from < call.entered && to > call.asked }
        began = [*stops.map(&:first), call.entered].min
        [call.asked, began - GRANT - @history.excused(call, call.asked, call.entered)].max
      end

      def given_back_at(call)
        return gone_at(call) if call.ended.nil? || call.handed
        doubtful =
          call.unreleased || call.outcome == :failed || disturbed_at(call, call.left, call.ended)
        doubtful ? settled_at(call) : call.ended
      end

      # When a call that did not enter may have held the key nevertheless: from its first
      # disturbance until the effects of the disturbance are over.
      def doubt_of(call)
        return if call.entered

        over = call.ended || died(call)
        from = disturbed_at(call, call.asked, over)
        from ||= over if call.ended.nil? || call.outcome == :failed
        return unless from

        [from - GRANT, call.ended ? settled_at(call) : gone_at(call)]
      end

      # A call may have acquired the key just before it was interrupted. It then releases the key.
      def around_its_end(call)
        return if call.entered || call.outcome != :interrupted

        [call.ended - (2 * GRANT), call.ended]
      end

      # When the call's first disturbance in from..to began.
      def disturbed_at(call, from, to)
        return unless from && to

        @history.suffered(call, from, to).map { |_, began,| began }.min
      end

      # When everything that the call left behind must be gone: some time after the disturbance, and
      # at the latest when the call's lease has expired.
      def settled_at(call)
        last = @history.suffered(call, call.asked, call.ended).map(&:last).max
        gone = call.ended + lease_of(call)
        return gone unless @kind.settles

        [[call.ended, last].compact.max + Torture.ns(@kind.settles), gone].min
      end

      # When the key of this call becomes free, if the call died or handed its lease over.
      def gone_at(call)
        over = call.ended || died(call)
        return over + Torture.ns(0.5) if @kind.bound

        [over + lease_of(call), (call.valid_until || 0) + (call.ttl / DRIFT) + SLACK + late].max
      end

      def lease_of(call) = call.ttl + (call.ttl / DRIFT) + SLACK + late

      def late = Torture.ns(@kind.late_s)
    end
  end
end
