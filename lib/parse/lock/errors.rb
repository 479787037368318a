# frozen_string_literal: true

require_relative "application"

module Parse
  module Lock
    # Raised when the lock could not be had within `wait:`. The cause, where there is one, is what
    # plock's engine saw last. The block has not run; try again later, or wait longer.
    class TimeoutError < ::Parse::Error; end

    # Raised with `on_degraded: :raise` where no store is configured that other processes see.
    # Configure one.
    class UnavailableError < ::Parse::Error; end
  end
end
