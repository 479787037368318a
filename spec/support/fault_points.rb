# frozen_string_literal: true

module Support
  # Interrupts a thread at a point of its way through some files: at a line, a call or a return.
  # Thread#kill and Thread#raise come from another thread, as in earnest, and have come before the
  # point is left.
  #
  #   FaultPoints.each(folder, work) { |thread, reached| thread.kill }
  module FaultPoints
    EVENTS = %i[line call return b_call b_return].freeze

    class << self
      # Runs the work once for each point, on a thread of its own, and has the block interrupt it
      # there.
      #
      # @param folder [String] what lies in it has points
      # @param work [Proc] to be interrupted
      # @param after [Proc] called when the thread has ended, with the point's number and place
      # @yieldparam thread [Thread] which waits at the point
      # @return [Integer] how many points there are
      def each(folder, work, after:, &interrupt)
        number = 0
        number += 1 while reach(folder, work, number, interrupt, after)
        number
      end

      private

      def reach(folder, work, number, interrupt, after)
        place = nil
        at, go = Queue.new, Queue.new
        thread = Thread.new do
          Thread.current.report_on_exception = false
          points = points_of(Thread.current, folder, number) do |point|
            place = "#{point.event} in #{File.basename(point.path)}:#{point.lineno}"
            at << true
            go.pop
          end
          points.enable { work.call }
        ensure
          at.close
        end
        interrupt.call(thread) if at.pop
        go << true
        await(thread)
        after.call(number, place) if place
        place
      end

      def await(thread)
        thread.join
      rescue Exception # rubocop:disable Lint/RescueException
        nil # it is what was raised in there
      end

      def points_of(thread, folder, number)
        seen = -1
        TracePoint.new(*EVENTS) do |point|
          next unless Thread.current == thread && point.path.start_with?(folder)

          yield point if (seen += 1) == number
        end
      end
    end
  end
end
