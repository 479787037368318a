# frozen_string_literal: true

require_relative "bench"
require_relative "contender"
require_relative "table"

module Bench
  # A target of plock, and whether the measurement reached it. A missed target is reported, but does
  # not make the run fail.
  Check = Struct.new(:what, :found, :reached) do
    def to_s = "- #{reached ? "reached" : "MISSED "}  #{what}: #{found}"
  end

  # The result of a part in one placement. results: the rows of the table, each with a #to_h.
  # plots: pictures in the form that Plots draws, or nil.
  Finding =
    Struct.new(
      :part, :placement, :title, :columns, :results, :checks, :versions, :plots, keyword_init: true
    ) do
      def to_s = [Table.new(columns, results).to_s, checks.join("\n")].reject(&:empty?).join("\n\n")

      def to_h =
        {
          part: part, placement: placement.name, title: title, results: results.map(&:to_h),
          checks: checks.map(&:to_h), plots: plots
        }.compact
    end

  # A part of the benchmark answers one question about some contestants. A subclass has a NAME and
  # a TITLE. It measures in `measure(placement, &progress)`, and shows the results in
  # `columns(results)` and `checks(results, placement)`.
  class Part
    FAMILY = :lock # the family of the contestants

    # missing: a Hash to which the part adds each contestant that it cannot measure, and why.
    def initialize(server, contestants, options, missing)
      @server = server
      @contestants = contestants.select { |one| one.family == self.class::FAMILY }
      @options = options
      @missing = missing
      @versions = {}
    end

    # Does the part run in each placement? If not, it runs only in the first.
    def everywhere? = true

    # Returns a Finding, or nil if no contestant can take part.
    def run(placement, &progress)
      @server.place(placement)
      results = measure(placement, &progress)
      return if results.empty?

      Finding.new(
        part: self.class::NAME, placement: placement,
        title: "#{self.class::TITLE}, #{placement.title}", columns: columns(results),
        results: results, checks: checks(results, placement), versions: @versions
      )
    end

    private

    def contenders = @contestants.select(&:contender)

    # Returns the block's results for all contestants. If a contestant fails, the report names it,
    # and the run continues.
    def each_of(contestants, placement)
      contestants.flat_map { |contestant| attempt(contestant.name, placement) { yield contestant } }
    end

    def attempt(name, placement)
      yield
    rescue Failed => e
      @missing["#{name} in #{self.class::NAME}, #{placement.name}"] = e.message
      []
    end

    # Returns a new key, so that a failure with one key does not disturb later measurements.
    def fresh_key = "bench:#{self.class::NAME}:#{@keys = @keys.to_i + 1}"

    # Starts processes of these contestants, and yields them when they are ready.
    def start(contestants, placement, **how)
      Contender.start(contestants, @server.address, placement, **how) do |processes|
        processes.each { |process| @versions.merge!(process.versions) }
        yield processes
      end
    end
  end
end
