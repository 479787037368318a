# frozen_string_literal: true

# Draws pictures: `plotter.rb FOLDER`. Its standard input is a JSON array of plots (plots.rb), or
# the JSON file of a run, from bench/results. Runs in the bench's bundle.

require "fileutils"
require "json"
require "SVG/Graph/Plot"

module Bench
  # A plot with logarithmic axes. The gem cannot draw one, so this class plots the logarithms, and
  # labels the decades.
  class LogPlot < SVG::Graph::Plot
    LIGHT = {
      text: "#1f2328", back: "#ffffff", inner: "#f6f8fa", lines: %w[#0969da #bc4c00]
    }.freeze
    DARK = {
      text: "#e6edf3", back: "#0d1117", inner: "#161b22", lines: %w[#58a6ff #f0883e]
    }.freeze

    PREFIXES = { 6 => "M", 3 => "k", 0 => "" }.freeze

    def initialize(title:, x:, y:)
      super(
        width: 640, height: 400, graph_title: "#{title}: #{y}", show_graph_title: true,
        x_title: x, y_title: y, show_x_title: true, show_y_title: true, key: true,
        key_position: :bottom, show_x_guidelines: true, show_data_values: false,
        title_font_size: 15, key_font_size: 12,
        y_title_location: :middle, x_title_location: :middle,
        y_title_text_direction: :bt
      )
    end

    def add(label, pairs)
      add_data(title: label, data: pairs.flatten.map { |value| Math.log10(value) })
    end

    # The browser chooses the colors according to the reader's theme.
    def get_style = "#{super}#{colors(LIGHT)}@media (prefers-color-scheme: dark) {#{colors(DARK)}}"

    protected

    def get_x_labels = get_x_values.map { |decade| decade_label(decade) }
    def get_y_labels = get_y_values.map { |decade| decade_label(decade) }

    def min_x_range = super.floor
    def max_x_range = super.ceil
    def min_y_range = super.floor
    def max_y_range = [super.ceil, min_y_range + 1].max

    # Adds room for the last label, because half of it is to the right of the graph.
    def calculate_right_margin
      super
      @border_right += 20
    end

    # Returns the least value, the greatest value and the step. The gem's method adds a margin.
    def x_label_range
      @x_offset = 0
      [min_x_range, [max_x_range, min_x_range + 1].max, 1]
    end

    def y_label_range
      @y_offset = 0
      [min_y_range, max_y_range, 1]
    end

    # Overrides the gem's method, whose list goes one step beyond the range.
    def get_y_values
      least, most, @y_scale_division = y_label_range
      (least..most).to_a
    end

    private

    def decade_label(decade)
      return format_small(decade) if decade.negative?

      power, prefix = PREFIXES.find { |least, _| decade >= least }
      "#{10**(decade - power)}#{prefix}"
    end

    def format_small(decade) = "0.#{"0" * (-decade - 1)}1"

    def colors(theme)
      texts = %w[
        mainTitle subTitle xAxisLabels yAxisLabels xAxisTitle yAxisTitle keyText
      ].map { |name| ".#{name}" }.join(",")
      <<~CSS
        #{texts} { fill: #{theme[:text]}; font-family: sans-serif; }
        .svgBackground { fill: #{theme[:back]}; }
        .graphBackground { fill: #{theme[:inner]}; }
        .axis { stroke: #{theme[:text]}; }
        .guideLines { stroke: #{theme[:text]}; stroke-opacity: 0.25; }
        #{theme[:lines].each.with_index(1).map { |color, i| series(color, i) }.join}
      CSS
    end

    def series(color, number)
      ".line#{number} { stroke: #{color}; stroke-width: 2px; }\n" \
        ".key#{number}, .dataPoint#{number} { fill: #{color}; }\n"
    end
  end

  def self.plots(input)
    return input if input.is_a?(Array)

    input.fetch("findings").flat_map { |finding| finding["plots"].to_a }
  end
end

FileUtils.mkdir_p(ARGV.first)
Bench.plots(JSON.parse($stdin.read)).each do |plot|
  picture =
    Bench::LogPlot.new(title: plot.fetch("title"), x: plot.fetch("x"), y: plot.fetch("y"))
  plot.fetch("series").each do |label, pairs|
    above = pairs.select { |pair| pair.all?(&:positive?) }
    picture.add(label, above) if above.any?
  end
  File.write(File.join(ARGV.first, "#{plot.fetch("file")}.svg"), picture.burn)
end
