# frozen_string_literal: true

require_relative "../../afresh_in_child"
require_relative "../../background"
require_relative "../../clock"

module Plock
  class Store
    # The releases and undos that the stores in Ruby still have to make in the background. The
    # stores' threads end with the process. So before the process ends, it waits for a short time
    # until these releases and undos are made.
    #
    # @api private
    module Debts
      extend AfreshInChild

      @lock = Mutex.new
      @paid = ConditionVariable.new

      class << self
        # @param until_time [Float] a time of {Clock}; after it, there is nothing left to release
        def add(until_time)
          debt = Object.new
          enter do
            forget_expired
            @owed[debt] = until_time
          end
          debt
        end

        # @param debt [Object, nil] a debt that is paid already may be paid again
        def pay(debt)
          enter do
            @owed.delete(debt)
            @paid.broadcast
          end
        end

        def await
          deadline = Clock.now + Background::LAST_S
          enter do
            @paid.wait(@lock, [deadline - Clock.now, 0.001].max) while owed? && Clock.now < deadline
          end
        end

        private

        def start_afresh
          @owed = {}.compare_by_identity
        end

        # Forgets debts that were not paid in time, up to the first that has not expired.
        def forget_expired
          now = Clock.now
          @owed.shift while @owed.any? && @owed.first.last <= now
        end

        def owed?
          now = Clock.now
          @owed.each_value.any? { |until_time| now < until_time }
        end
      end

      at_exit { await }
    end
  end
end
