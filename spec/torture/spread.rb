# frozen_string_literal: true

require_relative "ways"

module Torture
  # The holders of a key that may have several, with their times and modes. A writer that became a
  # reader has two parts.
  class Spread
    # The part of a call during which the call holds the lock in this mode.
    Part = Struct.new(:call, :from, :to, :mode)

    # ends: maps a call to the moment from which the call no longer counts as a holder.
    def initialize(calls, ends)
      @parts =
        calls
          .flat_map { |call| parts(call, ends.call(call)) }
          .select { |part| part.to > part.from }
          .sort_by(&:from)
    end

    # Yields two parts for each conflict. The first one was inside, and the second one entered
    # although it must not. apart: a callable that tells whether anything excuses two calls that
    # are inside together.
    def conflicts(apart = ->(_, _) { false })
      inside = []
      @parts.each do |part|
        inside.reject! { |other| other.to <= part.from || other.call.equal?(part.call) }
        others = inside.reject { |other| apart.call(other.call, part.call) }
        rival = others.find { |other| !beside?(other, part) }
        rival ||= others.first if full?(others, part)
        yield rival, part if rival
        inside << part
      end
    end

    def size = @parts.size

    private

    def parts(call, ends)
      return [Part.new(call, call.entered, ends, call.way.mode)] unless call.downgraded

      [
        Part.new(call, call.entered, [call.downgraded, ends].min, "w"),
        Part.new(call, call.downgraded, ends, "r")
      ]
    end

    def beside?(one, other) = one.mode == other.mode && other.mode != "w"
    def full?(inside, part) = part.mode == "s" && inside.size >= part.call.way.permits
  end
end
