# frozen_string_literal: true

require_relative "fairness"

module Bench
  # The same with room for three.
  class Permits < Fairness
    NAME = "permits"
    TITLE = "8 processes on a semaphore of 3"
    FAMILY = :permits

    OF_ALONE = nil # three are not as slow as one
  end
end
