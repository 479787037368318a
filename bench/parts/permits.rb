# frozen_string_literal: true

require_relative "fairness"

module Bench
  # The same contest as Fairness, with a semaphore that has three permits.
  class Permits < Fairness
    NAME = "permits"
    TITLE = "8 processes on a semaphore of 3"
    FAMILY = :permits

    OF_ALONE = nil # no target, because three holders at a time are faster than one
  end
end
