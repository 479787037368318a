# frozen_string_literal: true

require_relative "handoff"

module Bench
  # The same hand-offs as Handoff, through the drop-in for remote_lock. The gem itself is not
  # measured, because its waiters sleep for up to 20 s.
  class RemoteLockHandoff < Handoff
    NAME = "remote_lock"
    TITLE = "Hand-off, RemoteLock"
    FAMILY = :remote_lock

    P50_MS = 1.0

    private

    def checks(results, _)
      results.map do |result|
        Check.new(
          "#{result.to.name} enters within #{P50_MS} ms, p50", format("%.2f", result.p50_ms),
          result.p50_ms <= P50_MS
        )
      end
    end
  end
end
