# frozen_string_literal: true

require_relative "../witness"

module Torture
  module Sentinel
    # Judges a history with failovers. Each failover has a window: it begins with the last data
    # that the new primary has, and ends when the sentinels must have told every client
    # (docs/stores.md). In the window, leases and releases may be lost, and the old primary may
    # grant the same lock as the new one. So the window excuses two leases at the same time, calls
    # that fail, and what calls leave behind. Even in the window, a call must have a greater fence
    # than each call that had entered before it asked.
    class Witness < Torture::Witness
      LEARNT = SECOND # the longest time from the window's end until a holder learns of its loss
      # Within this time, a waiter must acquire a free key, because each process asks once a
      # second.
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

      # --- two leases at the same time ---

      def forgotten_between?(one, other)
        failover = failovers.find { |each| excuses?(each, one, other) }
        return super && !during_failover?(one, other) unless failover

        note(one, other, failover)
        true
      end

      # Does a failover's window overlap the time of these two calls? The driver records each window
      # as an oblivion, so the superclass would excuse any two leases in it. This class does not.
      def during_failover?(one, other)
        failovers.any? { |each| other.entered >= each.from && one.asked < each.over }
      end

      def excuses?(failover, one, other)
        return false unless other.entered >= failover.from && granted_by?(one, failover.over)
        return false if kept?(one, failover)

        [one, other].none? { |call| learnt?(call, failover, other.entered) }
      end

      # Did the new primary have this lease, and had the lease never been extended?
      def kept?(call, failover)
        call.entered < failover.from && call.valid_until == call.at_first
      end

      # If this lease is lost, must its holder know of the loss by this moment? Only the holder of
      # a watched lease must.
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

      # A failover can excuse two leases at the same time, but then one of them is lost. Finds such
      # pairs in which neither holder has been told of a loss in time.
      def untold
        @excused.each do |other, (one, failover)|
          both_until = [end_of(one), end_of(other)].min
          next unless [one, other].all? { |call| learnt?(call, failover, both_until) }

          find(:untold, "#{one} and #{other}: both count for #{ms(both_until - failover.over)} " \
                        "after every client must know the new primary", one, other)
        end
      end

      # --- what a failover does not change ---

      # The server numbers a lease after its call began and before its block begins. So a register
      # that rejects smaller fences never accepts an earlier lease's write after a later lease's
      # write. That is true even if both leases count at the same time.
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

      # Returns why no failover explains this loss: the new primary had the lease when it was
      # promoted, or the lease was seen on it later.
      def groundless(call, at)
        near = failovers.select { |each| each.from < at && call.asked < each.over }
        return if near.empty?
        return "the new primary had it" if near.all? { |each| kept?(call, each) }

        seen = call.held
        return unless seen && seen < at && near.all? { |each| each.named < seen }

        "it was seen at the new primary #{ms(at - seen)} before"
      end

      # Does this time overlap a window?
      def unwell?(from, to) = failovers.any? { |each| each.from < to && from < each.over }

      def well?(call, from, to) = super && !unwell?(from - LATELY, to)

      # If a failover overlaps a call, it is no violation that the server still has the call's lease
      # or place. The new primary may lack the call's release, or its departure from the queue. The
      # call may also have continued with another token after the failover.
      def remains(call)
        super unless call.ended && unwell?(call.asked, call.ended + SOON)
      end

      def idle(from, to, queued, calls)
        super unless failovers.any? { |each| each.from < to && from < each.over + AFTERMATH }
      end

      # --- after a failover the waiters come back ---

      # The primary had no holder for the key, and a call waited, but no call acquired the key.
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
