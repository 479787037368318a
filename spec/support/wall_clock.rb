# frozen_string_literal: true

module Support
  # Changes the wall clock of this process, as Ruby code reads it, while a block runs. It is not a
  # stub, because RSpec would remove a stub while a background thread is inside it. That thread
  # would then fail in the next example.
  module WallClock
    @jump = 0

    class << self
      # @return [Numeric] the seconds by which the clock is ahead
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

    # Replaces Process.clock_gettime for all callers.
    module Reading
      def clock_gettime(clock, *unit)
        now = super
        clock == Process::CLOCK_REALTIME && unit.empty? ? now + WallClock.jump : now
      end
    end
  end
end
