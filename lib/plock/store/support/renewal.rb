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
        nil # look_again schedules each of them
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
