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

      # @return [Array<Lease>]
      attr_reader :leases

      # @param leases [Array<Lease>]
      # @param terms [Terms]
      # @yieldparam holds [Array] to be released
      # @yieldparam keep [Float] seconds that their keys are to stay taken
      # @yieldparam budget [Float, nil] seconds after which the store goes on with it by itself
      # @yieldreturn [Array<Boolean>] was it still ours? For each.
      def initialize(leases, terms, &release)
        @leases = leases
        @terms = terms
        @release = release
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
        taken = @leases.reject(&:over?)
        @release.call(taken.map(&:hold), 0.0, GIVE_BACK_BUDGET) if taken.any?
        taken.each { |lease| lease.hold = nil }
      end

      # The end of the block, or of an attempt that came to nothing. Raises nothing.
      #
      # @return [void]
      def finish
        @terms.used ? release(@leases.reject(&:over?)) : give_back
      rescue Error => e
        Log.warn(@terms.logger, "the leases on #{@leases.map { |lease| lease.key.inspect }.join(", ")} could not be released " \
                                "(#{e.class}: #{e.message}): they free themselves within #{@terms.ttl} s")
      end

      private

      def release(leases)
        return if leases.empty?

        keep = @terms.at_least.positive? ? leases.map(&:left_to_keep).max : 0.0
        leases.each(&:releasing)
        leases.zip(@release.call(leases.map(&:hold), keep, nil)) do |lease, ours|
          lease.released(ours)
          lease.warn_if_lost
        end
      end
    end
  end
end
