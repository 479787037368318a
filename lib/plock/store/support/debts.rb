# frozen_string_literal: true

require_relative "../../background"
require_relative "../../brief_mutex"
require_relative "../../clock"

module Plock
  class Store
    # The releases and undos that the stores in Ruby still have to make in the background. Their
    # threads end with the process, so the process waits for them before it ends, though not for
    # long.
    #
    # @api private
    module Debts
      @lock = BriefMutex.new
      @paid = ConditionVariable.new
      @owed = {}.compare_by_identity
      @pid = Process.pid

      class << self
        # @param until_time [Float] a time of {Clock}, from which on there is nothing to release
        # @return [Object] the debt, for {#pay}
        def add(until_time)
          debt = Object.new
          @lock.synchronize do
            start_afresh unless @pid == Process.pid
            @owed[debt] = until_time
          end
          debt
        end

        # @param debt [Object, nil] a debt that is paid already may be paid again
        def pay(debt)
          @lock.synchronize do
            @owed.delete(debt)
            @paid.broadcast
          end
        end

        # Waits until all debts are paid, for at most {Background::LAST_S} seconds.
        def await
          deadline = Clock.now + Background::LAST_S
          @lock.hold do
            @paid.wait(@lock, [deadline - Clock.now, 0.001].max) while owed? && Clock.now < deadline
          end
        end

        private

        # A forked child owes nothing of its parent's.
        def start_afresh
          @owed = {}.compare_by_identity
          @pid = Process.pid
        end

        def owed?
          now = Clock.now
          @pid == Process.pid && @owed.each_value.any? { |until_time| now < until_time }
        end
      end

      at_exit { await }
    end
  end
end
