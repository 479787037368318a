# frozen_string_literal: true

module Plock
  class Web
    # A small chart of numbers over time, as the points of an SVG polyline.
    #
    # @api private
    class Sparkline
      WIDTH = 240
      HEIGHT = 48
      MARGIN = 3
      private_constant :MARGIN

      # @param samples [Array<History::Sample>]
      # @param name [Symbol] `:held` or `:waiting`
      def initialize(samples, name)
        @times = samples.map { |sample| sample.at.to_f }
        @values = samples.map { |sample| sample[name] }
      end

      # A line needs two points.
      def drawn? = @values.size > 1

      def least = @values.min

      def most = @values.max

      # @return [Float] seconds
      def span = @times.last - @times.first

      def points
        @times.zip(@values).map { |time, value| "#{x(time)},#{y(value)}" }.join(" ")
      end

      private

      def x(time)
        share = span.positive? ? (time - @times.first) / span : 1.0
        (MARGIN + (share * (WIDTH - (2 * MARGIN)))).round(1)
      end

      # A number that does not change is drawn as a line in the middle.
      def y(value)
        share = most > least ? (value - least) / (most - least).to_f : 0.5
        (HEIGHT - MARGIN - (share * (HEIGHT - (2 * MARGIN)))).round(1)
      end
    end
  end
end
