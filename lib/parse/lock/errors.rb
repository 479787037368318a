# frozen_string_literal: true

require_relative "application"

module Parse
  module Lock
    # Raised when the lock was not acquired within `wait:`. The cause, if any, is the last error of
    # plock's engine. The block has not run; try again later, or wait longer.
    class TimeoutError < ::Parse::Error; end

    # Raised with `on_degraded: :raise` if no store is configured that other processes see.
    # Configure one.
    class UnavailableError < ::Parse::Error; end
  end
end
