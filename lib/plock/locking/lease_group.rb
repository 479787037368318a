# frozen_string_literal: true

require_relative "../clock"
require_relative "../log"

module Plock
  module Locking
    # The leases of one call for several keys. {Acquisition} treats the group like a single lease.
    #
    # @api private
    class LeaseGroup
      # In seconds. A caller whose `wait:` is over must return within this time. In this time, plock
      # asks the store who holds the refused key, and releases the keys that the call has acquired.
      # Releases that take longer continue in the background.
      WAY_OUT_BUDGET = 0.02
      LEAST_WAY_OUT = 0.001
      private_constant :WAY_OUT_BUDGET, :LEAST_WAY_OUT

      # @return [Array<Lease>] in the order in which their keys were named
      attr_reader :leases

      # @return [Array<String>] the leases' store keys, in the order in which they are acquired
      attr_reader :names

      # @return [Array<String>] the store keys that the next attempt asks for
      attr_writer :asked

      # The holds that the store granted for the keys asked for. Once they are set, {#finish}
      # releases them, even after an interrupt.
      attr_writer :granted

      # @return [Boolean] have subscribers been notified of the leases? If so, they are also
      #   notified of the release.
      attr_writer :told

      # @param leases [Hash{String => Lease}] by store key
      # @param store [Locking] grants the leases
      # @param first [GroupAcquisition::Attempt, nil] the first attempt, if it was made in C
      def initialize(leases, options, store, first = nil)
        @by_name = leases
        @leases = leases.values
        @names = leases.keys.sort!
        @options = options
        @store = store
        @first = first
        @asked = @granted = @out_by = @lost_at = nil
        @heard = @told = false
      end

      # @return [Boolean] has the store answered?
      def heard? = @heard

      def patience_is_over
        @out_by = Clock.now + WAY_OUT_BUDGET
      end

      def [](name)
        @by_name[name]
      end

      # @return [Boolean] does one of the leases hold this key?
      def holds?(store_key)
        lease = @by_name[store_key]
        !lease.nil? && lease.holds?(store_key)
      end

      # @return [String, nil] the store key of a lease that expired before all keys were acquired;
      #   nil: no lease has expired
      def over = @names.find { |name| !@by_name[name].hold.valid? }

      # @return [Boolean] has the call lost all leases that it has, or dropped a lost lease at most
      #   so many seconds ago?
      def lost_within?(seconds)
        holds = @leases.filter_map(&:hold)
        return holds.none?(&:valid?) if holds.any?

        !@lost_at.nil? && Clock.now - @lost_at < seconds
      end

      def each_lease(&block) = @leases.each(&block)

      def size = @leases.size

      # @yield to make an attempt
      # @return [Array, Integer, nil] the store's answer to the first attempt, if it was made in
      #   C; otherwise the block's value
      # @raise [Error] the failure of the first attempt
      def first_answer
        first, @first = @first, nil
        return yield unless first
        raise first.answer if Error === first.answer

        first.answer
      end

      # @param answer [Array, Integer, nil] the store's answer
      # @return [Integer, :apart, nil] nil: the keys are acquired; a number: the index of a key
      #   that others hold; `:apart`: the store can only acquire these keys one by one
      def answered(answer)
        @heard = true
        return answer.nil? ? :apart : answer unless answer.is_a?(Array)

        settle
      end

      def watch = @leases.each(&:watch)

      # The caller receives the leases now: see {Lease#given}.
      def given = @leases.each(&:given)

      # Releases holds that the caller has not received, without reporting an event.
      def give_back
        settle
        drop(@leases.reject(&:over?))
      end

      # Releases some of the leases, without reporting an event. Even a lost lease must be released:
      # until then, a local store uses the file that has the lease, although it was removed.
      def drop(leases)
        @lost_at = Clock.now unless leases.all? { |lease| lease.hold.valid? }
        give_up(leases, 0.0, way_out) if leases.any?
        leases.each { |lease| lease.hold = nil }
      end

      # Releases the leases at the end of the block, or after a failed attempt. Raises nothing.
      def finish
        @options.used || @told ? release : give_back
      rescue Error => e
        warn_of_failure(e)
      end

      # Completes the end of a block if the binding could not release all leases of this group as
      # usual. Raises nothing.
      #
      # @param answer [Array<Boolean, nil>, Error, nil] an Array: the store's answer for each lease,
      #   as {Ending#released} takes it; an Error: why the release failed; nil: the leases must
      #   still be released
      def end_of_block(answer)
        return finish unless answer
        if Error === answer
          @leases.each { |lease| lease.tell_of_failure(answer, lease.held_for) }
          return warn_of_failure(answer)
        end

        @leases.each_with_index { |lease, index| lease.end_of_block(answer[index]) }
      end

      private

      def warn_of_failure(error)
        Log.warn(
          @options.logger,
          "the leases on #{@leases.map { |lease| lease.key.inspect }.join(", ")} " \
            "could not be released (#{error.class}: #{error.message}): " \
            "they free themselves within #{@options.ttl} s"
        )
      end

      # Assigns the granted holds to their leases. If an interrupt stops this method halfway, the
      # next call of this method assigns all of them again.
      def settle
        return unless @granted

        @asked.each_index { |index| @by_name[@asked[index]].hold = @granted[index] }
        @granted = nil
      end

      def way_out = @out_by ? [@out_by - Clock.now, LEAST_WAY_OUT].max : WAY_OUT_BUDGET

      # @return [Array<Boolean>] for each lease: did the caller still hold it?
      def give_up(leases, keep, budget) = @store.release_all(leases.map(&:hold), keep, budget)

      def give_up_or_tell(leases, keep, since)
        before = $!
        answers = give_up(leases, keep, nil)
      rescue *Acquisition::STORE_FAILURES => e
        leases.zip(since) { |lease, held_for| lease.tell_of_failure(e, held_for) if held_for }
        since = [] # {Ending#cut_off} must not notify subscribers again
        raise
      ensure
        leases.zip(since) { |lease, held_for| lease.cut_off(held_for, before) } unless answers
      end

      # Records the outcome of each release. If a subscriber to the event of one lease kills this
      # thread, the outcomes of the remaining leases are still recorded.
      #
      # @param answers [Array<Array(Lease, Boolean, Float)>] each lease with the arguments of
      #   {Ending#released}
      def record(answers)
        lease, ours, held_for = answers.shift
        lease.released(ours, held_for)
        lease.warn_if_lost
      ensure
        record(answers) if answers.any?
      end

      def release
        # a lease that was lost during the hand-over to a daemon has no hold that the store could
        # release
        @leases.each { |lease| lease.finish if lease.lost_on_the_way? }
        leases = @leases.reject(&:over?)
        return if leases.empty?

        keep = @options.at_least.positive? ? leases.map(&:left_to_keep).max : 0.0
        since = leases.map(&:releasing)
        record(leases.zip(give_up_or_tell(leases, keep, since), since))
      ensure
        leases&.each(&:release_over)
      end
    end
  end
end
