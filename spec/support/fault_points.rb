# frozen_string_literal: true

module Support
  # Interrupts a thread at a point of its way through some files: at a line, a call or a return.
  # Thread#kill and Thread#raise come from another thread, and before the point is left. A signal
  # handler runs where Ruby looks for signals, that is, at a return.
  #
  #   FaultPoints.each(folder, work, after: check) { |thread| thread.kill }
  module FaultPoints
    EVENTS = %i[line call return b_call b_return].freeze
    SIGNAL_EVENTS = %i[return b_return].freeze

    class << self
      # Runs the work once for each point, on a thread of its own, and interrupts it there.
      #
      # @param folder [String] what lies in it has points
      # @param work [Proc] to be interrupted
      # @param after [Proc] called when the thread has ended, with the point's number and place
      # @param error [Class, nil] raised as by a signal handler, which no mask defers; without a
      #   block
      # @yieldparam thread [Thread] which waits at the point
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
        interrupt.call(thread) if at.pop # nil if it ended, or raised by itself
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
