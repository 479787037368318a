# frozen_string_literal: true

require_relative "basics"

module Torture
  # How long workers were kept from running, and not by the lock: a heart says it of its worker, a pulse of its processor.
  # What both saw is one delay, so that the longer one counts.
  class Delays
    STALL = SECOND / 10

    def initialize
      @spans = Hash.new { |hash, name| hash[name] = [] }
    end

    # @param name [String] a worker, or a processor: Pulse.name
    # @param credit [Integer] how much of from..to it was kept from running
    def add(name, from, to, credit) = @spans[name] << [from, to, credit]

    # How much of from..to the worker was kept from running.
    def of(worker, from, to)
      credits(worker, from, to).map(&:sum).max
    end

    # Was all of the worker kept from running for long at a stretch?
    def stalled?(worker, from, to) = credits(worker, from, to).flatten.any? { |credit| credit > STALL }

    # Each processor's longest delay, in nanoseconds.
    def processors = @spans.slice(*names).transform_values { |spans| spans.map(&:last).max }

    private

    def names = @spans.keys.grep(/\A#{PROCESSOR}/o)

    def credits(worker, from, to)
      [worker, *names].map do |name|
        @spans.fetch(name, []).filter_map { |began, ended, credit| credit if began < to && from < ended }
      end
    end
  end
end
