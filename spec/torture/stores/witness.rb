# frozen_string_literal: true

require_relative "courses"
require_relative "free_time"
require_relative "../witness"

module Torture
  module Stores
    # Judges a history by the promises of the stores in Ruby.
    class Witness < Torture::Witness
      ATTEMPT = Torture.ns(ATTEMPT_S)
      RELEASE = Torture.ns(RELEASE_S)
      LATE = SECOND * 3 / 2
      QUIET = SECOND # time after which a disturbance has no more effects

      # @param kind [Kind]
      # @param failures [Hash{String => String}] the reason of each failed call, by label
      def initialize(history, kind, failures: {}, **options)
        @kind = kind
        @failures = failures
        super(history, **options)
      end

      # @return [Integer] the longest wait for a free key, in nanoseconds
      attr_reader :longest_wait

      def judge
        count_calls
        history.calls.each { |call| judge_call(call) }
        handovers
        @longest_wait = 0
        @by_key.each_value { |calls| judge_key(calls) }
        self
      end

      private

      # If the fence is a time of the server's clock, two readers may have the same fence.
      def fences(entered, &pairs)
        super(
          @kind.bound ? entered.uniq { |call| call.way.mode == "r" ? call.fence : call } : entered,
          &pairs
        )
      end

      def judge_call(call)
        budget(call)
        patience(call)
        release(call)
        failures(call)
        errors(call)
        losses(call)
        leftovers(call)
      end

      def judge_key(calls)
        entered = calls.select(&:entered).sort_by(&:entered)
        way = calls.first.way
        return once(entered) if way == ONCE

        way.mode ? shares(entered) : exclusive(entered)
        order(calls, entered) if @kind.ordered
        lateness(calls)
      end

      # A lock that is bound to a connection may be free before the driver knows that the holder's
      # process is dead.
      def end_of(call)
        return super unless @kind.bound && call.left.nil? && call.ended.nil?

        [super, history.life(call)&.killed || nil].compact.min
      end

      # --- what the store may have forgotten ---

      # A lock that is bound to a connection ends with it, and the holder may not know that. A
      # stopped process may also learn of its grant long after the server forgot the lock.
      def forgotten_between?(one, other)
        return true if @kind.bound && [one, other].any? { |call| unbound?(call, other.entered) }

        super || super(other, other)
      end

      def unbound?(call, to)
        life = history.life(call) or return false
        [*life.cuts, *history.chronicle.darks.fetch(life.slot, [])].any? do |from, over|
          from < to && over > call.asked
        end
      end

      # Only a store that forgets its keys at a restart has this excuse.
      def about_oblivion?(one, other) = @kind.forgets && super

      # --- budgets ---

      # Must this call end within its budget? In a store without leases, only a call in a calm
      # period has to.
      def budgeted?(call, from, to) = @kind.leases || calm?(from, to)

      def budget(call)
        came_back = call.entered || call.ended
        return if call.child? || came_back.nil? || !budgeted?(call, call.asked, came_back)

        counts[:budgets] += 1
        late = late_by(call, call.asked, came_back, budget_of(call, came_back))
        return unless late.positive?

        find(:budget, "#{call} (#{call.outcome}): #{ms(late)} later than its " \
                      "#{ms(budget_of(call, came_back))} and the margin", call)
      end

      # An interrupted call may have a lease that it must release first.
      def budget_of(call, came_back)
        return call.wait + ATTEMPT unless call.interrupt

        [call.wait + ATTEMPT, interrupted_after(call, came_back) + RELEASE].min
      end

      def release(call)
        return if call.child? || call.left.nil? || call.ended.nil?
        return unless budgeted?(call, call.left, call.ended)

        late = late_by(call, call.left, call.ended, RELEASE * call.way.at_once)
        return unless late.positive?

        find(:budget, "#{call}: the release took #{ms(late)} longer than it may", call)
      end

      # --- no call fails if nothing is wrong ---

      # Was nothing disturbed, not even another worker? A stopped worker may hold a row that this
      # call needs.
      def well?(call, from, to)
        return false if call.child? || (@kind.product.fragile? && !Stores.spared?(call.life))

        calm?(from, to) && !history.stalled?(call, from - QUIET, to)
      end

      # Errors of Active Record count only in workers whose calls are never interrupted.
      def errors(call)
        text = @failures[label_of(call)]
        return unless text&.start_with?("NoMethodError") && Stores.spared?(call.life)

        find(:error, "#{call}: #{text}", call)
      end

      def calm?(from, to)
        history.disturbances.none? { |began, over| began < to && from < over + QUIET }
      end

      def failure(kind, call, what)
        why = @failures[label_of(call)]
        find(kind, "#{call} #{what}, although nothing was disturbed: #{why}", call)
      end

      def label_of(call) = "t#{call.life}x#{call.lane}x#{call.number}"

      # Checks each report of a loss. If leases are bound to connections, a disturbance explains a
      # loss, because such a lease ends with its connection.
      def losses(call)
        if @kind.bound && call.lost && history.suffered(call, call.asked, call.lost.last.first).any?
          return
        end

        super
      end

      # --- a call that returned leaves nothing behind ---

      # The row of a call that had returned still existed at the end, after all workers had ended.
      def leftovers(call)
        seen = history.chronicle.held[label_of(call)] or return
        return if call.child? || call.ended.nil? || call.handed || call.way == ONCE

        counts[:remains] += 1
        life = history.life(call)
        return if life.died < call.ended + Torture.ns(SETTLED_S + LATE.fdiv(SECOND))

        find(:leak, "#{call} had a row #{ms(seen - call.ended)} after it came back", call)
      end

      # --- a free key is acquired soon ---

      def lateness(calls)
        free_time = FreeTime.new(calls, history, @kind)
        calls.each do |call|
          next if call.wait.zero?

          counts[:patience] += 1
          wait, from = free_time.of(call)
          @longest_wait = [@longest_wait, wait].max
          late(call, wait, from, calls) if wait > LATE
        end
      end

      def late(call, wait, from, calls)
        before = calls.select { |other| other.asked < from && !other.equal?(call) }
                      .max_by { |other| other.ended || history.life(other)&.died || 0 }
        find(
          :late,
          "#{call} waited #{ms(wait)} for a key that was free, from #{ms(from - call.asked)} " \
            "after it had asked",
          *[call, before].compact
        )
      end
    end
  end
end
