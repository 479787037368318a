# frozen_string_literal: true

require_relative "../../afresh_in_child"
require_relative "../../background"
require_relative "../../clock"
require_relative "../../errors"
require_relative "backoff"
require_relative "worker"

module Plock
  class Store
    # Renews the leases of a store in Ruby, notices that they have expired, and makes background
    # calls. Its thread runs while tasks are scheduled, and for another IDLE_S after that. A forked
    # child starts with an empty schedule.
    #
    # The thread never waits for the store, because one worker renews leases, and another worker
    # makes the calls. So a lease ends in time even if a server is silent.
    #
    # The schedule is sorted by time. A task leaves the schedule before it runs, and returns to it
    # only when it is scheduled again, so a task that fails cannot spin.
    #
    # @api private
    class Scheduler
      include AfreshInChild

      IDLE_S = 1.0

      # The shortest pause before a task is repeated.
      PAUSE_S = 0.001

      # Seconds between two checks of an expired lease that another thread is still asking about.
      LOOK_S = 0.02

      # Seconds between attempts at a failing call: the first and the longest pause.
      RETRY_S = [0.1, 2.0].freeze

      # The largest batch. In a larger one, the first tasks would wait for the last ones.
      TOGETHER = 500

      # An entry is void if its task was rescheduled or cancelled afterwards.
      Entry = Struct.new(:at, :task)

      # The task of {Scheduler#call_later}.
      class Call
        def initialize(scheduler, &work)
          @scheduler = scheduler
          @work = work
        end

        def together? = false

        def expire = false

        def run
          again_at = @work.call
          @scheduler.schedule(self, again_at) if again_at
        end
      end

      private_constant :Entry

      # @param together [Proc, nil] receives the due tasks whose `together?` is true. These tasks
      #   must have a `valid_until`. For every other due task, the scheduler calls `run`. Every task
      #   has the method `expire`, which does not wait. `expire` ends the task if the task's time is
      #   over, and returns whether the task has ended.
      def initialize(together = nil)
        @renewing = Worker.new("plock renewals", TOGETHER, &together)
        @calling = Worker.new("plock background calls", 1) { |(task)| task.run }
        @lock = Mutex.new
        @moved = ConditionVariable.new
      end

      # Schedules a task to run at a moment. A task that is already scheduled is moved.
      #
      # @param at [Float] a time of {Clock}
      def schedule(task, at)
        enter do
          at = [at, Clock.now + PAUSE_S].max if ours?
          # drops the void entries when they are most of the schedule
          @schedule = @entries.values.sort_by(&:at) if @schedule.size > 64 &&
                                                       @schedule.size > 4 * @entries.size
          @schedule.insert(
            @schedule.bsearch_index { |entry| entry.at > at } || -1,
            @entries[task] = Entry.new(at, task)
          )
          if !@thread&.alive? then @thread = Background.launch("plock scheduler") { work }
          elsif at < @wakes_at then @moved.signal # only if needed: a wake costs more than a lease
          end
        end
      end

      # Calls the block once, and again at each moment that it returns.
      #
      # @param delay [Float] seconds until the first call
      # @yieldreturn [Float, nil] the next moment, on {Clock}
      def call_later(delay = 0.0, &work) = schedule(Call.new(self, &work), Clock.now + delay)

      # Calls the block, and calls it again after each failure, with growing pauses.
      #
      # @param until_time [Float] a time of {Clock}, after which no attempt is made
      def retry_until(until_time)
        pause = Backoff.new(*RETRY_S, 2.0)
        call_later do
          yield
        rescue Error
          again = Clock.now + pause.next
          again if again < until_time
        end
      end

      def cancel(task)
        enter { @entries.delete(task) }
      end

      private

      def ours? = Thread.current.equal?(@thread) || @renewing.here? || @calling.here?

      def start_afresh
        @next_end = Float::INFINITY
        @wakes_at = -Float::INFINITY
        @entries = {}.compare_by_identity
        @schedule = []
        @thread = nil
      end

      def work
        until Background.killed? || (tasks = next_tasks).nil?
          due = tasks.reject(&:expire)
          renewals, calls = due.partition(&:together?)
          @renewing.hand(renewals)
          @calling.hand(calls)
          @next_end = [@next_end, *renewals.map(&:valid_until)].min
          end_those_in_hand if tasks.empty? || Clock.now >= @next_end
        end
      end

      # Ends the leases whose renewal the store has not answered in time. If another thread is
      # asking the store about a lease, this checks the lease again after LOOK_S.
      def end_those_in_hand
        left = @renewing.tasks.reject(&:expire)
        next_end = left.map(&:valid_until).min || Float::INFINITY
        @next_end = [next_end, Clock.now + LOOK_S].max
      end

      # @return [Array, nil] tasks that are due; nil: there has been no task for IDLE_S
      def next_tasks
        @lock.synchronize do
          idle_until = Clock.now + IDLE_S
          loop do
            now = Clock.now
            due = pop_due(now)
            return due if due.any? || now >= @next_end

            idle = @entries.empty?
            # the worker's renewals may be over by now: if {#work} gets no task, it checks them
            return [] if idle && @next_end.finite? && now >= idle_until
            if idle && now >= idle_until
              @schedule.clear # void entries would keep ended leases in memory
              return @thread = nil
            end

            @wakes_at = [@schedule.first&.at, @next_end, (idle_until if idle)].compact.min
            @moved.wait(@lock, [@wakes_at - now, 0.0].max)
            @wakes_at = -Float::INFINITY # the thread looks at all tasks before it sleeps again
          end
        end
      end

      # Void entries stay in the schedule until they are due. Most leases end before their entries
      # are due. If those entries were removed, the thread would sleep longer, and each new lease
      # would have to wake it.
      def pop_due(now)
        due = []
        while due.size < TOGETHER && (entry = @schedule.first) && entry.at <= now
          @schedule.shift
          next unless @entries[entry.task].equal?(entry)

          @entries.delete(entry.task)
          due << entry.task
        end
        due
      end
    end
  end
end
