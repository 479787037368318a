# frozen_string_literal: true

require_relative "../../afresh_in_child"
require_relative "../../background"

module Plock
  class Store
    # A thread that runs the tasks of the {Scheduler}, and may wait for the store. It runs while
    # there are tasks, and for another IDLE_S after that. A forked child starts without tasks.
    #
    # @api private
    class Worker
      include AfreshInChild

      IDLE_S = 1.0

      # @param most [Integer] how many tasks one batch can have
      # @yieldparam tasks [Array] the tasks of one batch
      def initialize(name, most, &work)
        @name = name
        @most = most
        @work = work
        @lock = Mutex.new
        @handed_over = ConditionVariable.new
      end

      def hand(tasks)
        return if tasks.empty?

        enter do
          @waiting.concat(tasks)
          if @thread&.alive? then @handed_over.signal
          else @thread = Background.launch(@name) { work }
          end
        end
      end

      def tasks = enter { @running + @waiting }

      def here? = Thread.current.equal?(@thread)

      private

      def start_afresh
        @waiting = []
        @running = []
        @thread = nil
      end

      def work
        until Background.killed? || (tasks = next_batch).nil?
          Background.guard(@name) { @work.call(tasks) }
        end
      end

      # @return [Array, nil] nil: nothing has been handed over for a while
      def next_batch
        @lock.synchronize do
          @running = []
          @handed_over.wait(@lock, IDLE_S) if @waiting.empty?
          return @thread = nil if @waiting.empty?

          @running = @waiting.shift(@most)
        end
      end
    end
  end
end
