# frozen_string_literal: true

require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    # Renews the leases of one store that are due, or checks whether they are still held, in as few
    # requests as the store allows.
    #
    # A lease that another thread is asking about is scheduled again. Each of the others is
    # scheduled again too, or has ended, even if its request fails.
    #
    # @api private
    class Renewal
      def self.call(store, leases) = new(store, leases.select(&:take_turn)).call

      # @param leases [Array<LeaseState>] whose turns have been taken
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
        nil # end_turn schedules each of the others
      end

      def check(leases)
        leases.each do |lease|
          @store.still?(lease) ? lease.seen : lease.lose
          end_turn(lease)
        rescue Error
          nil
        end
      end

      # A lease whose answer has come does not wait for those of the others: its connection may be
      # the only one that still answers.
      def end_turn(lease)
        return unless @turns.delete(lease)

        lease.look_again
        lease.end_turn
      end
    end
  end
end
