# frozen_string_literal: true

require_relative "ways"

module Torture
  # Who was inside a key that several may hold, when, and as what: a writer that became a reader is
  # two parts.
  class Spread
    # Of one call, from..to.
    Part = Struct.new(:call, :from, :to, :mode)

    # ends: call => when it counts no more
    def initialize(calls, ends)
      @parts =
        calls
          .flat_map { |call| parts(call, ends.call(call)) }
          .select { |part| part.to > part.from }
          .sort_by(&:from)
    end

    # Yields each who came in, and one of those inside who should not have been there.
    # apart: does it not matter that these two calls are inside together?
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
