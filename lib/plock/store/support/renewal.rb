# frozen_string_literal: true

require_relative "../../clock"
require_relative "../../errors"

module Plock
  class Store
    # Renews the leases of one store that are due, or checks whether they are still held, in as few
    # requests as the store can make of them.
    #
    # A lease whose turn another thread has is scheduled again. Each of the others is in the
    # schedule again after this, or has ended, even if a request fails.
    #
    # @api private
    class Renewal
      def self.call(store, grants)
        new(store).call(grants.select(&:take_turn))
      end

      def initialize(store)
        @store = store
        @asked_at = Clock.now
      end

      # @param grants [Array<LeaseState>] whose turns have been taken
      def call(grants)
        grants.group_by { |grant| grant.plan(@asked_at) }.each do |plan, planned|
          case plan
          when Float then renew(planned, plan)
          when :check then check(planned)
          end
        end
      ensure
        grants.each do |grant|
          grant.look_again
          grant.end_turn
        end
      end

      private

      def renew(grants, span)
        answers = @store.prolong_all(grants, span)
        grants.each { |grant| grant.renewed(@asked_at, span, answers[grant]) }
      rescue Error
        nil # the schedule has another moment for each
      end

      def check(grants)
        grants.each do |grant|
          @store.still?(grant) ? grant.seen : grant.lose
        rescue Error
          nil
        end
      end
    end
  end
end
