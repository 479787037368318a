# frozen_string_literal: true

require_relative "basics"

module Torture
  # For how long workers were kept from running by other causes than the lock. A heart measures that
  # of its worker, a pulse that of its processor. If both measure the same time, it counts once.
  class Delays
    STALL = SECOND / 10

    def initialize
      @spans = Hash.new { |hash, name| hash[name] = [] }
    end

    # @param name [String] a worker; or PROCESSOR and its number
    # @param credit [Integer] how much of from..to it was kept from running
    def add(name, from, to, credit) = @spans[name] << [from, to, credit]

    # How much of from..to the worker was kept from running.
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

    # Was all of the worker kept from running for long at a stretch?
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
