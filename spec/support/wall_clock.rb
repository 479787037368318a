# frozen_string_literal: true

module Support
  # Sets this process's wall clock, as Ruby code reads it, for the length of a block. A stub would
  # be taken away while a background thread is inside it, which then fails in the next example.
  module WallClock
    @jump = 0

    class << self
      # @return [Numeric] seconds by which it is ahead
      attr_reader :jump

      # @param seconds [Numeric]
      # @return [Object] the block's value
      def ahead(seconds)
        Process.singleton_class.prepend(Reading)
        @jump = seconds
        yield
      ensure
        @jump = 0
      end
    end

    # Process.clock_gettime, as everything reads it.
    module Reading
      def clock_gettime(clock, *unit)
        now = super
        clock == Process::CLOCK_REALTIME && unit.empty? ? now + WallClock.jump : now
      end
    end
  end
end
