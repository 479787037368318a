# frozen_string_literal: true

require_relative "application"

module Parse
  module Lock
    # Raised when the lock was not acquired within `wait:`. The cause, if any, is the last error of
    # plock's engine. The block has not run; try again later, or wait longer.
    class TimeoutError < ::Parse::Error; end

    # Raised with `on_degraded: :raise` if other processes do not see the configured store, or if
    # no store is configured. Configure a store that all processes share.
    class UnavailableError < ::Parse::Error; end
  end
end
