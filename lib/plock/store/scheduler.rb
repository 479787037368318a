# frozen_string_literal: true

require_relative "../background"
require_relative "../clock"

module Plock
  class Store
    # The thread on which a store that is written in Ruby renews its leases, notices that they have
    # ended, and makes background calls. It runs while there is something to do, and a moment longer.
    # A forked child starts with an empty schedule.
    #
    # Tasks are in a binary heap, ordered by their moment. A task leaves the schedule before it runs,
    # and returns to it only when it is scheduled again: a task that fails cannot spin.
    #
    # It is a thread of Ruby: while other code lets no thread run, it renews nothing.
    #
    # @api private
    class Scheduler
      IDLE_S = 1.0

      # A task is never repeated sooner than this, whatever moment it names.
      PAUSE_S = 0.001

      # Tasks that run together at most: the first ones due are not to wait for the last ones.
      TOGETHER = 500

      # An entry of the heap. One whose task was rescheduled or cancelled since is void.
      Entry = Struct.new(:at, :task)

      # Work that runs once, or again at the moment that the block returns.
      class Call
        # @yieldreturn [Float, nil] the next moment, on {Clock}
        def initialize(scheduler, &work)
          @scheduler = scheduler
          @work = work
        end

        def together? = false

        # @return [void]
        def run
          again_at = @work.call
          @scheduler.schedule(self, again_at) if again_at
        end
      end

      private_constant :Entry

      # @param together [#call, nil] is given the tasks that are due and answer to `together?`, instead
      #   of each one's `run` being called
      def initialize(together = nil)
        @together = together
        @lock = Mutex.new
        @moved = ConditionVariable.new
      end

      # Runs a task at a moment, and not at the one that it was scheduled for before.
      #
      # @param task [#run]
      # @param at [Float] on {Clock}
      # @return [void]
      def schedule(task, at)
        enter do
          at = [at, Clock.now + PAUSE_S].max if Thread.current.equal?(@thread)
          compact if @heap.size > 64 && @heap.size > 4 * @entries.size
          push(@entries[task] = Entry.new(at, task))
          if !@thread&.alive? then @thread = Background.launch("plock scheduler") { work }
          elsif at < @wakes_at then @moved.signal # waking it costs more than most leases do
          end
        end
      end

      # Calls the block once, and again at each moment that it returns.
      #
      # @param delay [Float] seconds until the first call
      # @yieldreturn [Float, nil] the next moment, on {Clock}
      # @return [void]
      def call_later(delay = 0.0, &work)
        schedule(Call.new(self, &work), Clock.now + delay)
      end

      # @return [void]
      def cancel(task)
        enter { @entries.delete(task) }
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

      # A child of a fork does nothing of what its parent had to do.
      def start_afresh
        @pid = Process.pid
        @wakes_at = -Float::INFINITY
        @entries = {}.compare_by_identity
        @heap = []
        @thread = nil
      end

      def work
        while (tasks = next_tasks)
          together, others = @together ? tasks.partition(&:together?) : [[], tasks]
          run("renewing leases") { @together.call(together) } if together.any?
          others.each { |task| run("a background call of a store") { task.run } }
        end
      end

      def run(what, &block) = Background.guard(what, &block)

      # @return [Array, nil] tasks that are due; nil: there has been nothing to do for a while
      def next_tasks
        @lock.synchronize do
          idle_until = Clock.now + IDLE_S
          loop do
            now = Clock.now
            due = pop_due(now)
            return due if due.any?
            return @thread = nil if @heap.empty? && now >= idle_until

            @wakes_at = @heap.empty? ? idle_until : @heap.first.at
            @moved.wait(@lock, [@wakes_at - now, 0.0].max)
            @wakes_at = -Float::INFINITY # it looks at all tasks before it sleeps again
          end
        end
      end

      def pop_due(now)
        due = []
        while due.size < TOGETHER && (entry = first) && entry.at <= now
          @entries.delete(entry.task)
          due << entry.task
          pop
        end
        due
      end

      # @return [Entry, nil] the first that is not void
      def first
        pop while (entry = @heap.first) && !@entries[entry.task].equal?(entry)
        entry
      end

      # --- the heap ---

      def push(entry)
        at = @heap.size
        @heap << entry
        while at.positive? && @heap[above = (at - 1) / 2].at > entry.at
          @heap[at] = @heap[above]
          at = above
        end
        @heap[at] = entry
      end

      def pop
        last = @heap.pop
        return if @heap.empty?

        at = 0
        while (below = (2 * at) + 1) < @heap.size
          below += 1 if below + 1 < @heap.size && @heap[below + 1].at < @heap[below].at
          break unless @heap[below].at < last.at

          @heap[at] = @heap[below]
          at = below
        end
        @heap[at] = last
      end

      # Most are void: a sorted array is a heap, too.
      def compact
        @heap = @entries.values.sort_by(&:at)
      end
    end
  end
end
