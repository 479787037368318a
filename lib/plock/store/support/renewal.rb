# frozen_string_literal: true

require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    # Renews leases of one store, or checks whether they are still held. It makes as few requests as
    # the store allows.
    #
    # If another thread is already asking the store about a lease, that lease is only scheduled
    # again. Any other lease is scheduled again after its request, unless it has ended.
    #
    # @api private
    class Renewal
      def self.call(store, leases) = new(store, leases.select(&:take_turn)).call

      # @param leases [Array<LeaseState>] reserved for this thread by {LeaseState#take_turn}
      def initialize(store, leases)
        @store = store
        @asked_at = Clock.now
        @turns = leases.to_h { |lease| [lease, true] }.compare_by_identity
      end

      def call
        plans = @turns.keys.group_by { |lease| lease.plan(@asked_at) }
        plans.delete(nil)&.each { |lease| end_turn(lease) }
        plans.each do |plan, leases|
          case plan
          when Float then renew(leases, plan)
          when :check then check(leases)
          end
        end
      ensure
        @turns.keys.each { |lease| end_turn(lease) }
      end

      private

      def renew(leases, span)
        @store.prolong_all(leases, span) do |lease, answer|
          lease.renewed(@asked_at, span, answer)
          end_turn(lease)
        end
      rescue Error
        nil # end_turn schedules the unanswered leases again
      end

      def check(leases)
        leases.each do |lease|
          @store.still?(lease) ? lease.seen : lease.lose
          end_turn(lease)
        rescue Error
          nil
        end
      end

      # Does not wait for the answers about other leases, whose connections may be silent.
      def end_turn(lease)
        return unless @turns.delete(lease)

        lease.look_again
        lease.end_turn
      end
    end
  end
end
