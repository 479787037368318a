# frozen_string_literal: true

require_relative "../lane"
require_relative "../worker"

module Torture
  module Stores
    # A lane of which calls are also broken off by Thread#kill.
    class Lane < Torture::Lane
      private

      def ask(plan)
        super.tap { |outcome| return own_timeout if outcome == :interrupted && plan.interrupt.nil? }
      end

      def own_timeout
        @worker.note("lane #{@number}, call #{@count}: a Timeout::Error that nobody has asked for")
        :unexpected
      end

      def interrupted_after(seconds, &block)
        return yield unless seconds

        @random.rand < 0.5 ? super : killed_after(seconds, &block)
      end

      def killed_after(seconds)
        thread = Thread.new do
          Thread.current.report_on_exception = false
          Thread.current[:torture_lane] = self
          yield
        end
        return if thread.join(seconds)

        thread.kill.join
        raise Timeout::Error
      end

      # Every store can be extended, but a front door.
      def hand_over(lease) = (super if @worker.lock.hands_over?)
    end

    # A worker that has made its connections' home before it counts what it has.
    class Worker < Torture::Worker
      LISTENING = 5.0 # seconds until the thread that hears of turns sees that it is to end
      CLOSING_TIME = LISTENING + RUBY_THREAD_END + 4.0

      # It has what failed to see to, for as long as that may still be carried out.
      LASTING_THREAD = "plock keeper"

      private

      def warm_up
        super
        @lock = @adapter.new(@address)
      end

      def lane(number) = Lane.new(self, number)

      def inventory
        descriptors, threads = super
        [descriptors, threads - Thread.list.count { |thread| thread.name == LASTING_THREAD }]
      end
    end
  end
end
