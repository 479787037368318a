# frozen_string_literal: true

require_relative "../../support/grower"
require_relative "../../support/part"

module Bench
  class Growth < Part
    # A figure that is measured at each step.
    # title: its heading, with the unit. digits: the number of digits after the point.
    # least: in comparisons, a smaller value counts as this value, because smaller differences are
    # noise. If least is nil, the figure is only shown, and not compared between steps.
    # plot: the name of its picture's file, or nil.
    Figure = Struct.new(:title, :digits, :least, :plot, keyword_init: true) do
      def text(value) = value.nil? ? "–" : Growth.number(value, digits)
    end

    # The figures of one contestant at one step. figures: name => value. previous: the row of the
    # previous step, or nil.
    Row = Struct.new(:contestant, :n, :figures, :previous) do
      def label = contestant.label
      def to_h = { contestant: contestant.name, n: n, **figures }

      # Returns this row's figure as a multiple of the other row's, or nil if one row lacks it.
      def times(name, other, least)
        mine, theirs = [self, other].map { |row| row.figures[name] }
        [mine, least].max.fdiv([theirs, least].max) if mine && theirs
      end
    end

    def self.number(value, digits)
      whole, rest = format("%.#{digits}f", value).split(".")
      [whole.gsub(/(?<=\d)(?=(?:\d{3})+\z)/, ","), rest].compact.join(".")
    end

    # One table, about one number that grows from step to step. A subclass has a TITLE, a STEP
    # (the name of that number, with its unit), STEPS and FIGURES (name => Figure).
    class Section < Part
      NAME = "growth"
      FAMILY = :growth
      MARK = "▲"
      HUGE_STEPS = [].freeze # further steps with --huge

      # If log n grows by a factor f, a figure may grow by a factor of at most SLACK * f. This bound
      # applies from one step to the next, and from the first step to the last. SLACK allows for
      # other load on the machine, which easily multiplies a figure by 1.5.
      #
      # If n grows tenfold from 100 or more, log n grows by a factor of at most 1.5, so a figure
      # may grow by a factor of at most 3. A figure that is proportional to n grows by a factor of
      # 10, and one that is proportional to the square root of n by 3.2. Both exceed the bound.
      SLACK = 2.0

      def self.bound(from, to) = SLACK * Math.log2(1 + to) / Math.log2(1 + from)

      def everywhere? = false

      def run(placement, &progress)
        super&.tap { |finding| finding.plots = plots(finding.results) }
      end

      private

      def figures = self.class::FIGURES
      def steps = self.class::STEPS + (@options.huge ? self.class::HUGE_STEPS : [])

      # Yields each step, and makes a row from the figures that the block returns. After a step
      # that fails, there are no further steps.
      def rows(contestant)
        rows = []
        steps.each { |n| rows << Row.new(contestant, n, yield(n), rows.last) }
        rows
      rescue Failed => e
        @missing["#{contestant.name} in #{NAME}, #{steps[rows.size]} #{self.class::STEP}"] =
          e.message
        rows
      end

      # Starts this many processes of the contestant, and yields them.
      def growers(contestant, placement, count)
        Grower.start(contestant, @server.address, placement, count) do |growers|
          growers.each { |grower| @versions.merge!(grower.versions) }
          yield growers
        end
      end

      def columns(_)
        {
          "contestant" => :label.to_proc,
          self.class::STEP => method(:count),
          **figures.to_h { |name, figure| [figure.title, ->(row) { cell(row, name, figure) }] }
        }
      end

      def cell(row, name, figure)
        mark = "#{MARK} " if figure.least && too_fast?(row, row.previous, name, figure)
        "#{mark}#{figure.text(row.figures[name])}"
      end

      def too_fast?(row, other, name, figure)
        times = other && row.times(name, other, figure.least)
        times && times > self.class.bound(other.n, row.n)
      end

      def checks(rows, _)
        compared = figures.select { |_, figure| figure.least }
        rows
          .select { |row| row.contestant.plock? }
          .group_by(&:contestant)
          .values
          .flat_map { |own| compared.filter_map { |name, figure| check(own, name, figure) } }
      end

      def check(rows, name, figure)
        first, last = rows.select { |row| row.figures[name] }.values_at(0, -1)
        return if first.equal?(last)

        times = last.times(name, first, figure.least)
        bound = self.class.bound(first.n, last.n)
        Check.new(
          "#{last.contestant.name} #{figure.title}, #{self.class::STEP} from #{count(first)} to " \
          "#{count(last)}: at most #{format("%.1f", bound)} times",
          format("%.2f", times), times <= bound
        )
      end

      def count(row) = Growth.number(row.n, row.n.is_a?(Float) ? 1 : 0)

      def plots(rows)
        figures.select { |_, figure| figure.plot }.map do |name, figure|
          {
            file: "growth-#{figure.plot}", title: self.class::TITLE, x: self.class::STEP,
            y: figure.title,
            series: rows.group_by(&:label).transform_values do |own|
              own.filter_map { |row| [row.n, row.figures[name]] if row.figures[name] }
            end
          }
        end
      end
    end
  end
end
