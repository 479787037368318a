# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"
require "time"
require_relative "table"
require_relative "targets"

module Bench
  # What a run leaves: tables on the terminal, a JSON file, and on request the section of bench/README.md between two marks.
  class Report
    README = File.join(ROOT, "README.md")
    MARKS = ["<!-- results -->", "<!-- end of results -->"].freeze
    FOLDER = File.join(ROOT, "results")

    def initialize(server_version, options, missing)
      @server_version = server_version
      @options = options
      @missing = missing
      @at = Time.now
      @sections = []
    end

    def add(placement, results)
      @sections << [placement, results]
    end

    def to_s
      [facts.map { |name, text| "- #{name}: #{text}" }.join("\n"),
       *@sections.flat_map { |placement, results| ["### #{capital(placement.title)}", Table.new(results).to_s, Targets.new(placement, results).to_s] },
       (@missing.map { |name, why| "- not measured: #{name}, #{why}" }.join("\n") if @missing.any?)].compact.reject(&:empty?).join("\n\n")
    end

    def save
      FileUtils.mkdir_p(FOLDER)
      path = File.join(FOLDER, "#{@at.strftime("%Y%m%d-%H%M%S")}.json")
      placements = @sections.to_h do |placement, results|
        checks = Targets.new(placement, results).checks.map(&:to_h)
        [placement.name, { title: placement.title, results: results.map(&:to_h), checks: checks }]
      end
      File.write(path, JSON.pretty_generate(at: @at.iso8601, facts: facts, placements: placements, missing: @missing))
      path
    end

    def record
      before, rest = File.read(README).split(MARKS[0], 2)
      after = rest&.split(MARKS[1], 2)&.last or raise Failed, "#{README} has lost its marks"
      File.write(README, [before, MARKS[0], "\n\n", to_s, "\n\n", MARKS[1], after].join)
    end

    private

    def facts
      { "date" => @at.strftime("%Y-%m-%d"), "machine" => machine, "versions" => versions,
        "run" => "#{@options.rounds} rounds of #{@options.seconds} s each; median of the rounds, range in min–max" }
    end

    def machine
      model = File.exist?("/proc/cpuinfo") ? File.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)/, 1] : nil
      virtual = File.exist?("/proc/cpuinfo") && File.read("/proc/cpuinfo").match?(/^flags.*\bhypervisor\b/) ? ", virtual" : ""
      "#{model || RUBY_PLATFORM}, #{Etc.nprocessors} cores#{virtual}, #{Etc.uname[:sysname]} #{Etc.uname[:release]}"
    end

    def versions
      reported = @sections.flat_map { |_, results| results.map(&:versions) }.reduce({}, :merge)
      ["ruby #{RUBY_VERSION}", @server_version, *reported.map { |name, version| "#{name} #{version}" }].join(", ")
    end

    def capital(text) = text[0].upcase + text[1..]
  end
end
