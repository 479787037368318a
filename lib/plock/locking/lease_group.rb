# frozen_string_literal: true

require_relative "../clock"
require_relative "../log"

module Plock
  module Locking
    # The leases of one call for several keys; {Acquisition} treats it like a single lease.
    #
    # @api private
    class LeaseGroup
      # Seconds that the way out may take a caller whose patience is over: to ask who has the key,
      # and to give back the others. Later releases continue in the background.
      WAY_OUT_BUDGET = 0.02
      LEAST_WAY_OUT = 0.001
      private_constant :WAY_OUT_BUDGET, :LEAST_WAY_OUT

      # @return [Array<Lease>] in the order in which their keys were named
      attr_reader :leases

      # @return [Array<String>] of the leases' keys in the store, in the order in which they are
      #   taken
      attr_reader :names

      # The holds that the store granted for the keys of {#asks_for}. From then on {#finish}
      # releases them, even after an interrupt.
      attr_writer :granted

      # @param leases [Hash{String => Lease}] by the names of their keys in the store
      # @param terms [AcquireOptions]
      # @param store [Locking] that they come from
      def initialize(leases, terms, store)
        @by_name = leases
        @leases = leases.values
        @names = leases.keys.sort!
        @terms = terms
        @store = store
        @asked = @granted = @out_by = nil
        @heard = false
      end

      # @return [Boolean] has the store answered?
      def heard?
        @heard
      end

      def patience_is_over
        @out_by = Clock.now + WAY_OUT_BUDGET
      end

      # @param name [String]
      # @return [Lease]
      def [](name)
        @by_name[name]
      end

      # @param store_key [String]
      # @return [Boolean] is one of the leases held, and of this key?
      def holds?(store_key)
        lease = @by_name[store_key]
        !lease.nil? && lease.holds?(store_key)
      end

      # @return [String, nil] the store key of a lease that expired before all were acquired
      def over
        @names.find { |name| !@by_name[name].hold.valid? }
      end

      # @yieldparam lease [Lease]
      def each_lease(&block)
        @leases.each(&block)
      end

      # @return [Integer]
      def size
        @leases.size
      end

      # @param names [Array<String>] of keys in the store that are asked for now
      def asks_for(names)
        @asked = names
      end

      # @param answer [Array, Integer, nil] the store's
      # @return [Integer, :apart, nil] nil: they are taken; a number: of one that others have;
      #   `:apart`: the store cannot take them at once
      def answered(answer)
        @heard = true
        return answer.nil? ? :apart : answer unless answer.is_a?(Array)

        settle
      end

      def watch
        @leases.each(&:watch)
      end

      # Its caller gets them now: as {Lease#given} has it.
      def given
        @leases.each(&:given)
      end

      # Releases holds that the caller has not seen, without an event.
      #
      # @raise [Error]
      def give_back
        settle
        taken = @leases.reject(&:over?)
        give_up(taken, 0.0, way_out) if taken.any?
        taken.each { |lease| lease.hold = nil }
      end

      # Releases at the end of the block or of a failed attempt. Raises nothing.
      def finish
        @terms.used ? release : give_back
      rescue Error => e
        Log.warn(
          @terms.logger,
          "the leases on #{@leases.map { |lease| lease.key.inspect }.join(", ")} " \
            "could not be released (#{e.class}: #{e.message}): " \
            "they free themselves within #{@terms.ttl} s"
        )
      end

      private

      # If an interrupt stopped this halfway, the next call assigns all holds again.
      def settle
        return unless @granted

        @asked.each_index { |index| @by_name[@asked[index]].hold = @granted[index] }
        @granted = nil
      end

      def way_out
        @out_by ? [@out_by - Clock.now, LEAST_WAY_OUT].max : WAY_OUT_BUDGET
      end

      # @return [Array<Boolean>] was it still ours? For each.
      def give_up(leases, keep, budget)
        @store.release_all(leases.map(&:hold), keep, budget)
      end

      def release
        # there is no hold of it to release with the others
        @leases.each { |lease| lease.finish if lease.lost_on_the_way? }
        leases = @leases.reject(&:over?)
        return if leases.empty?

        keep = @terms.at_least.positive? ? leases.map(&:left_to_keep).max : 0.0
        since = leases.map(&:releasing)
        ours = give_up(leases, keep, nil)
        leases.each_index do |index|
          leases[index].released(ours[index], since[index])
          leases[index].warn_if_lost
        end
      ensure
        leases&.each(&:release_over)
      end
    end
  end
end
