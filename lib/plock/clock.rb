# frozen_string_literal: true

module Plock
  # The clock that leases are dated on: it runs while the machine is suspended, if the system has
  # such a clock.
  #
  # @api private
  module Clock
    ID =
      Process.const_defined?(:CLOCK_BOOTTIME) ? Process::CLOCK_BOOTTIME : Process::CLOCK_MONOTONIC

    # @return [Float] seconds
    def self.now
      Process.clock_gettime(ID)
    end
  end
end
