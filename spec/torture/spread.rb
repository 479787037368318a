# frozen_string_literal: true

require_relative "ways"

module Torture
  # The holders of a key that several may hold, with their times and modes. A writer that became a
  # reader is two parts.
  class Spread
    # Of one call, from..to.
    Part = Struct.new(:call, :from, :to, :mode)

    # ends: call => the moment from which it does not count any more
    def initialize(calls, ends)
      @parts =
        calls
          .flat_map { |call| parts(call, ends.call(call)) }
          .select { |part| part.to > part.from }
          .sort_by(&:from)
    end

    # Yields each call that entered, with a holder that should not have been inside then. apart: may
    # these two calls be inside together?
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
