# frozen_string_literal: true

require_relative "../witness"

module Torture
  module Sentinel
    # Judges a history with failovers. Each has a window, from what the new primary had to when the
    # sentinels must have told every client (docs/stores.md). In it, leases may be lost, and the old
    # primary may grant what the new one grants. That excuses two leases at a time, and nothing
    # else.
    class Witness < Torture::Witness
      LEARNT = SECOND # from the end of the window until a holder is told that its lease is lost
      # A key without a holder is taken by then: each process looks once a second.
      TAKEN = REMEMBERED

      def judge
        @excused = {}.compare_by_identity
        super
        @by_key.each do |key, calls|
          ordered(calls)
          untaken(key, calls)
        end
        untold
        windows
        self
      end

      private

      def failovers = history.chronicle.failovers

      def windows
        counts[:failovers] = failovers.size
        counts[:silent] = failovers.count { |one| !one.told }
        longest = failovers.map { |one| one.named - one.from }.max
        counts[:longest_ms] = longest.to_i / MILLISECOND
      end

      # --- two at a time ---

      def forgotten_between?(one, other)
        failover = failovers.find { |each| excuses?(each, one, other) }
        return super && !during_failover?(one, other) unless failover

        note(one, other, failover)
        true
      end

      # The super method knows the windows as times when everything was forgotten.
      def during_failover?(one, other)
        failovers.any? { |each| other.entered >= each.from && one.asked < each.over }
      end

      def excuses?(failover, one, other)
        return false unless other.entered >= failover.from && granted_by?(one, failover.over)
        return false if kept?(one, failover)

        [one, other].none? { |call| learnt?(call, failover, other.entered) }
      end

      # The new primary had its lease, and the end of it.
      def kept?(call, failover)
        call.entered < failover.from && call.valid_until == call.at_first
      end

      # Must the holder of a lease that is watched have been told by then, if it is lost?
      def learnt?(call, failover, moment)
        call.watched && call.entered < failover.over &&
          late_by(call, failover.over, moment, LEARNT).positive?
      end

      def note(one, other, failover)
        exclusive = [one, other].any? { |call| call.way.mode == "w" } ||
                    (one.way.mode.nil? && one.way != ONCE)
        return if !exclusive || @excused[other]

        counts[:excused] += 1
        @excused[other] = [one, failover]
      end

      # Of two leases at a time, at least one is lost. Its holder learns that.
      def untold
        @excused.each do |other, (one, failover)|
          both_until = [end_of(one), end_of(other)].min
          next unless [one, other].all? { |call| learnt?(call, failover, both_until) }

          find(:untold, "#{one} and #{other}: both count for #{ms(both_until - failover.over)} " \
                        "after every client must know the new primary", one, other)
        end
      end

      # --- what a failover does not change ---

      # The server numbers a lease after its call began, and before its block does. So a register
      # that rejects smaller fences accepts no write of an earlier lease after one of a later lease,
      # even if two leases count at a time.
      def ordered(calls)
        calls = calls.select { |call| call.entered && call.way != ONCE }
        known = calls.sort_by(&:entered)
        highest = nil
        calls.sort_by(&:asked).each do |call|
          while known.any? && known.first.entered < call.asked
            highest = [highest, known.shift].compact.max_by(&:fence)
          end
          next unless highest

          counts[:ordered] += 1
          next if call.fence > highest.fence

          find(:stale, "#{call} has #{call.fence}, and asked after #{highest} had entered " \
                       "with #{highest.fence}", highest, call)
        end
      end

      def losses(call)
        super
        return if call.way == ONCE

        (call.lost || []).each do |at, valid_until|
          next unless valid_until && at < valid_until

          reason = groundless(call, at)
          find(:lost, "#{call}: told that it is lost, although #{reason}", call) if reason
        end
      end

      # No failover explains the loss: either the new primary had the lease when it was promoted, or
      # it was seen there later.
      def groundless(call, at)
        near = failovers.select { |each| each.from < at && call.asked < each.over }
        return if near.empty?
        return "the new primary had it" if near.all? { |each| kept?(call, each) }

        seen = call.held
        return unless seen && seen < at && near.all? { |each| each.named < seen }

        "it was seen at the new primary #{ms(at - seen)} before"
      end

      # Was some of that time in a window?
      def unwell?(from, to) = failovers.any? { |each| each.from < to && from < each.over }

      def well?(call, from, to) = super && !unwell?(from - LATELY, to)

      # A failover can lose a release, or the end of a wait. The call may go on after that, with
      # another token.
      def remains(call)
        super unless call.ended && unwell?(call.asked, call.ended + SOON)
      end

      def idle(from, to, queued, calls)
        super unless failovers.any? { |each| each.from < to && from < each.over + AFTERMATH }
      end

      # --- after a failover the waiters come back ---

      # The key had no holder at the primary, and a call waited for it, but none got it.
      def untaken(key, calls)
        history.chronicle.free[key].each do |free|
          last = failovers.select { |each| each.from < free.to }.max_by(&:over)
          from = [free.from, last&.over].compact.max
          next if free.to - from < TAKEN

          counts[:free_spans] += 1
          waiter = calls.find { |call| waited_in_vain?(call, from, free.to) } or next
          next if calls.any? { |call| call.entered&.between?(from, free.to) }

          find(:untaken, "#{waiter} waited, and no call got the key, which was free for " \
                         "#{ms(free.to - from)}", waiter)
        end
      end

      def waited_in_vain?(call, from, to)
        return false if call.way == ONCE || call.way == ADOPT || call.way.at_once > 1
        return false unless call.asked < from && (ends = until_when(call)) && ends > to
        return false unless history.undisturbed?(call, from, to)

        (to - from - TAKEN - history.excused(call, from, to) - history.slow(from, to)).positive?
      end
    end
  end
end
