# frozen_string_literal: true

require_relative "basics"

module Torture
  # How long workers could not run, for reasons other than the lock. The heart of a worker
  # measures the worker's delays, and a pulse measures a processor's. If both measured the same
  # time, it counts once.
  class Delays
    STALL = SECOND / 10

    def initialize
      @spans = Hash.new { |hash, name| hash[name] = [] }
    end

    # @param name [String] a worker's name, or PROCESSOR and a number
    # @param credit [Integer] for how many nanoseconds of from..to it could not run
    def add(name, from, to, credit) = @spans[name] << [from, to, credit]

    # The number of nanoseconds in from..to during which the worker could not run.
    def of(worker, from, to)
      counted_to = 0
      spans(worker, from, to)
        .map { |_, ended, credit| [ended - credit, ended] }
        .sort
        .sum do |began, ended|
          began, counted_to = [began, counted_to].max, [ended, counted_to].max
          [ended - began, 0].max
        end
    end

    # Was there a long time without a break in which no thread of the worker could run?
    def stalled?(worker, from, to) = spans(worker, from, to).any? { |_, _, credit| credit > STALL }

    # Each processor's longest delay, in nanoseconds.
    def processors = @spans.slice(*names).transform_values { |spans| spans.map(&:last).max }

    private

    def names = @spans.keys.select { |name| name.start_with?(PROCESSOR) }

    def spans(worker, from, to)
      [worker, *names].flat_map do |name|
        @spans.fetch(name, []).select { |began, ended,| began < to && from < ended }
      end
    end
  end
end
