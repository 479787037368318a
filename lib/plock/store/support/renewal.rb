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
      def self.call(store, leases) = new(store).call(leases.select(&:take_turn))

      def initialize(store)
        @store = store
        @asked_at = Clock.now
      end

      # @param leases [Array<LeaseState>] whose turns have been taken
      def call(leases)
        leases.group_by { |lease| lease.plan(@asked_at) }.each do |plan, planned|
          case plan
          when Float then renew(planned, plan)
          when :check then check(planned)
          end
        end
      ensure
        leases.each do |lease|
          lease.look_again
          lease.end_turn
        end
      end

      private

      def renew(leases, span)
        answers = @store.prolong_all(leases, span)
        leases.each { |lease| lease.renewed(@asked_at, span, answers[lease]) }
      rescue Error
        nil # look_again schedules each of them
      end

      def check(leases)
        leases.each do |lease|
          @store.still?(lease) ? lease.seen : lease.lose
        rescue Error
          nil
        end
      end
    end
  end
end
