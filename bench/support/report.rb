# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"
require "time"
require_relative "bench"
require_relative "plots"

module Bench
  # The output of a run: tables on the terminal, a JSON file, and with --record the section between
  # the two marks of bench/README.md.
  class Report
    README = File.join(ROOT, "README.md")
    MARKS = ["<!-- results -->", "<!-- end of results -->"].freeze
    FOLDER = File.join(ROOT, "results")

    def initialize(server_version, options, missing)
      @server_version = server_version
      @options = options
      @missing = missing
      @at = Time.now
      @load = load
      @findings = []
    end

    def add(finding)
      @findings << finding
    end

    # pictures: whether to include links to the pictures that --record draws.
    def to_s(pictures: false)
      [
        facts.map { |name, text| "- #{name}: #{text}" }.join("\n"),
        *@findings.flat_map do |finding|
          plots = (Plots.links(finding.plots) if pictures && finding.plots)
          ["### #{finding.title}", finding.to_s, plots]
        end,
        (@missing.map { |name, why| "- not measured: #{name}, #{why}" }.join("\n") if @missing.any?)
      ].compact.join("\n\n")
    end

    def save
      FileUtils.mkdir_p(FOLDER)
      path = File.join(FOLDER, "#{@at.strftime("%Y%m%d-%H%M%S")}.json")
      File.write(
        path,
        JSON.pretty_generate(
          at: @at.iso8601, facts: facts, findings: @findings.map(&:to_h), missing: @missing
        )
      )
      path
    end

    def record
      plots = @findings.flat_map { |finding| finding.plots.to_a }
      Plots.draw(plots) if plots.any?
      before, rest = File.read(README).split(MARKS[0], 2)
      after = rest&.split(MARKS[1], 2)&.last or raise Failed, "#{README} has lost its marks"
      results = to_s(pictures: true).gsub(/^- .{99,}$/) { |line| folded(line) }
      File.write(README, [before, MARKS[0], "\n\n", results, "\n\n", MARKS[1], after].join)
    end

    private

    def folded(line) = line.gsub(/(.{1,96})(?: |\z)/, "\\1\n  ").rstrip

    def facts
      {
        "date" => @at.strftime("%Y-%m-%d"), "machine" => machine, "load before" => @load,
        "versions" => versions, "run" => run
      }.compact
    end

    # The relevant options of the parts that have run.
    def run
      {
        "pairs" =>
          "#{@options.rounds} rounds of #{@options.seconds} s each, median of the rounds, " \
          "range in min–max",
        "handoff" => "#{@options.handoffs} each",
        "fairness" => "#{@options.contest} s",
        "threads" => "#{@options.contest} s",
        "cost" => "#{@options.waiting} s",
        "mixed" => "#{@options.contest} s",
        "kinds" => "#{@options.rounds} rounds of #{@options.seconds} s each",
        "permits" => "#{@options.contest} s",
        "local" =>
          "#{@options.rounds} slices of #{@options.seconds} s, #{@options.handoffs} hand-offs, " \
          "#{@options.contest} s of contention",
        "start" => "#{@options.rounds} rounds",
        "growth" => @options.huge ? "with --huge" : "without --huge",
        "ractors" => "5 rounds"
      }.slice(*@findings.map(&:part)).map { |part, text| "#{part} #{text}" }.join("; ")
    end

    # The load of the machine before the run.
    def load = File.exist?("/proc/loadavg") ? File.read("/proc/loadavg").split.first : nil

    def machine
      model =
        File.exist?("/proc/cpuinfo") ? File.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)/, 1] : nil
      virtual =
        if File.exist?("/proc/cpuinfo") &&
           File.read("/proc/cpuinfo").match?(/^flags.*\bhypervisor\b/)
          ", virtual"
        else
          ""
        end
      system = "#{Etc.uname[:sysname]} #{Etc.uname[:release]}"
      "#{model || RUBY_PLATFORM}, #{Etc.nprocessors} cores#{virtual}, #{system}"
    end

    def versions
      reported = @findings.map(&:versions).reduce({}, :merge)
      [
        "ruby #{RUBY_VERSION}", @server_version,
        *reported.map { |name, version| "#{name} #{version}" }
      ].join(", ")
    end
  end
end
