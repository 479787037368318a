# frozen_string_literal: true

require_relative "../background"
require_relative "../clock"

module Plock
  class Store
    # The thread on which a store that is written in Ruby renews its leases, finds that they are over, and runs errands. It is there as
    # long as there is something to see to, and a moment longer. In a forked child it begins afresh.
    #
    # It is a thread of Ruby: as long as other code lets no thread run, nothing is renewed.
    #
    # @api private
    class Keeper
      IDLE_S = 1.0

      # Something to be done once, or again at the moment that it answers with.
      class Errand
        # @return [Float, nil] on {Clock}
        attr_reader :due_at

        # @yieldreturn [Float, nil] when again
        def initialize(due_at, &work)
          @due_at = due_at
          @work = work
        end

        # @return [void]
        def tend
          @due_at = nil
          @due_at = @work.call
        end
      end

      def initialize
        @lock = Mutex.new
        @moved = ConditionVariable.new
      end

      # Sees to it when it is due: what answers to `due_at`, a moment on {Clock} or nil, and to `tend`.
      #
      # @return [void]
      def tend(task)
        enter do
          @tasks[task] = true
          if @thread&.alive? then wake_for(task)
          else @thread = Background.launch("plock keeper") { run }
          end
        end
      end

      # Runs the block on the thread, once, or again as long as it answers with a moment.
      #
      # @return [void]
      def errand(delay = 0.0, &work)
        tend(Errand.new(Clock.now + delay, &work))
      end

      # @return [void]
      def forget(task)
        enter { @tasks.delete(task) }
      end

      private

      def enter
        Thread.handle_interrupt(Object => :never) do
          @lock.synchronize do
            start_afresh unless @pid == Process.pid
            yield
          end
        end
      end

      # A thread that wakes early enough by itself is left asleep: to wake it costs more than most leases do.
      def wake_for(task)
        due_at = task.due_at
        @moved.signal if due_at && due_at < @wakes_at
      end

      # What a parent had to see to is the parent's.
      def start_afresh
        @pid = Process.pid
        @wakes_at = -Float::INFINITY
        @tasks = {}.compare_by_identity
        @thread = nil
      end

      def run
        while (task = next_task)
          Background.guard("a store's keeper") { task.tend }
        end
      end

      # It looks at all tasks before it sleeps again.
      def awake(task)
        @wakes_at = -Float::INFINITY
        task
      end

      # @return [Object, nil] nil: there has been nothing to do for a while
      def next_task
        @lock.synchronize do
          idle_until = Clock.now + IDLE_S
          loop do
            @tasks.delete_if { |task, _| task.due_at.nil? }
            task = @tasks.each_key.min_by { |any| any.due_at || Float::INFINITY }
            now = Clock.now
            due_at = task&.due_at
            return awake(task) if due_at && due_at <= now
            return @thread = nil if task.nil? && now >= idle_until

            @wakes_at = due_at || idle_until
            @moved.wait(@lock, @wakes_at - now)
          end
        end
      end
    end
  end
end
