# frozen_string_literal: true

module Support
  # Interrupts a thread at each point of some files, one after another. A point is a line, a call
  # or a return. Thread#kill and Thread#raise come from another thread, while the thread waits at
  # the point. A signal handler can run only where Ruby checks for signals, that is, at a return.
  #
  #   FaultPoints.each(folder, work, after: check) { |thread| thread.kill }
  module FaultPoints
    EVENTS = %i[line call return b_call b_return].freeze
    SIGNAL_EVENTS = %i[return b_return].freeze

    class << self
      # Runs the work once for each point, on a new thread, and interrupts the thread at that
      # point.
      #
      # @param folder [String] the folder whose files have the points
      # @param work [Proc] the code that is interrupted
      # @param after [Proc] called with the point's number and place after the thread has ended
      # @param error [Class, nil] an error to raise instead of calling the block. It is raised as
      #   a signal handler would raise it, so no mask defers it.
      # @yieldparam thread [Thread] the thread, which waits at the point
      # @return [Integer] how many points there are
      def each(folder, work, after:, error: nil, &interrupt)
        number = 0
        number += 1 while reach(folder, work, number, error || interrupt, after)
        number
      end

      private

      def reach(folder, work, number, interrupt, after)
        place = nil
        at, go = Queue.new, Queue.new
        signal = interrupt if interrupt.is_a?(Class)
        thread = Thread.new do
          Thread.current.report_on_exception = false
          points = points_of(Thread.current, folder, number, signal) do |point|
            place = "#{point.event} in #{File.basename(point.path)}:#{point.lineno}"
            raise signal if signal

            at << true
            go.pop
          end
          points.enable { work.call }
        ensure
          at.close
        end
        interrupt.call(thread) if at.pop # nil if the thread ended, or raised the error itself
        go << true
        await(thread)
        after.call(number, place) if place
        place
      end

      def await(thread)
        thread.join
      rescue Exception # rubocop:disable Lint/RescueException
        nil # the exception that interrupted the thread
      end

      def points_of(thread, folder, number, signal)
        seen = -1
        TracePoint.new(*(signal ? SIGNAL_EVENTS : EVENTS)) do |point|
          next unless Thread.current == thread && point.path.start_with?(folder)

          yield point if (seen += 1) == number
        end
      end
    end
  end
end
