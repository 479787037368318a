# frozen_string_literal: true

require_relative "../log"

module Plock
  module Locking
    # The leases of one call for several keys: what {Taking} sees to in the place of a single one.
    #
    # @api private
    class Bunch
      # Seconds that giving back may take the caller: his patience is over.
      GIVE_BACK_BUDGET = 0.02
      private_constant :GIVE_BACK_BUDGET

      # @return [Array<Lease>] in the order in which their keys were named
      attr_reader :leases

      # @return [Array<String>] of the leases' keys in the store, in the order in which they are taken
      attr_reader :names

      # What the store has granted to those that {#asks_for} named. From then on {#finish} gives it back, whatever interrupts.
      attr_writer :granted

      # @param leases [Hash{String => Lease}] by the names of their keys in the store
      # @param terms [Terms]
      # @param store [Locking] that they come from
      def initialize(leases, terms, store)
        @by_name = leases
        @leases = leases.values
        @names = leases.keys.sort!
        @terms = terms
        @store = store
        @asked = @granted = nil
      end

      # @param name [String]
      # @return [Lease]
      def [](name)
        @by_name[name]
      end

      # @return [Integer]
      def size
        @leases.size
      end

      # @param names [Array<String>] of keys in the store that are asked for now
      # @return [void]
      def asks_for(names)
        @asked = names
      end

      # @param answer [Array, Integer, nil] the store's
      # @return [Integer, :apart, nil] nil: they are taken; a number: of one that others have; `:apart`: the store cannot take them at once
      def answered(answer)
        return answer.nil? ? :apart : answer unless answer.is_a?(Array)

        settle
      end

      # @return [void]
      def watch
        @leases.each(&:watch)
      end

      # Gives back what nobody has seen yet, so that nobody is told of it either.
      #
      # @return [void]
      # @raise [Error]
      def give_back
        settle
        taken = @leases.reject(&:over?)
        give_up(taken, 0.0, GIVE_BACK_BUDGET) if taken.any?
        taken.each { |lease| lease.hold = nil }
      end

      # The end of the block, or of an attempt that came to nothing. Raises nothing.
      #
      # @return [void]
      def finish
        @terms.used ? release : give_back
      rescue Error => e
        Log.warn(@terms.logger, "the leases on #{@leases.map { |lease| lease.key.inspect }.join(", ")} could not be released " \
                                "(#{e.class}: #{e.message}): they free themselves within #{@terms.ttl} s")
      end

      private

      # What was granted may have come to some of the leases only, where this was interrupted: then it goes over all of them again.
      def settle
        return unless @granted

        @asked.each_index { |index| @by_name[@asked[index]].hold = @granted[index] }
        @granted = nil
      end

      # @return [Array<Boolean>] was it still ours? For each.
      def give_up(leases, keep, budget)
        @store.__send__(:release_all, leases.map(&:hold), keep, budget)
      end

      def release
        leases = @leases.reject(&:over?)
        return if leases.empty?

        keep = @terms.at_least.positive? ? leases.map(&:left_to_keep).max : 0.0
        leases.each(&:releasing)
        ours = give_up(leases, keep, nil)
        leases.each_index do |index|
          leases[index].released(ours[index])
          leases[index].warn_if_lost
        end
      end
    end
  end
end
