# frozen_string_literal: true

require_relative "fairness"

module Bench
  # The same contest as Fairness, with eight threads in each process.
  class Threads < Fairness
    NAME = "threads"
    TITLE = "64 threads in 8 processes on one key"

    THREADS = 8
    OF_ALONE = 0.9
    EVENNESS = 0.9
    LONGEST_MS = nil # no target, because there are eight times as many waiters
  end
end
