# frozen_string_literal: true

# Compares plock with the floor and its peers, on private servers. `ruby bench/run.rb --help` lists
# the options.

require_relative "parts/pairs"
require_relative "parts/handoff"
require_relative "parts/fairness"
require_relative "parts/threads"
require_relative "parts/cost"
require_relative "parts/fibers"
require_relative "parts/mixed"
require_relative "parts/kinds"
require_relative "parts/permits"
require_relative "parts/remote_lock"
require_relative "parts/local"
require_relative "parts/start"
require_relative "parts/growth"
require_relative "parts/ractors"
require_relative "parts/topologies"
require_relative "support/bench"
require_relative "support/options"
require_relative "support/pinning"
require_relative "support/report"
require_relative "support/server"

module Bench
  PARTS =
    [
      Pairs, Handoff, Fairness, Threads, Cost, Fibers, Mixed, Kinds, Permits, RemoteLockHandoff,
      LocalLocks, Start, Growth, Ractors, Topologies
    ].to_h { |part| [part::NAME, part] }.freeze

  # These parts run all contestants in the bench's bundle, because they need the async gem.
  FIBERS = [Fibers::NAME, Ractors::NAME].freeze

  class Run
    EXTENSION = File.join(LIB, "plock", "plock.#{RbConfig::CONFIG["DLEXT"]}")

    def initialize(arguments)
      @options = Options.new(arguments, PARTS.keys)
      @missing = {}
    end

    def call
      placements = Pinning.placements(@options.placements, @options.cores)
      raise Failed, "this machine has no such placement" if placements.empty?

      contestants = present(@options.pick(Bench.contestants))
      Server.run(@options.server) do |server|
        report = Report.new(server.version, @options, @missing)
        parts(server, contestants).each { |part| measure(part, placements, report) }
        finish(report)
      end
    end

    private

    def parts(server, contestants)
      PARTS
        .slice(*@options.parts)
        .values
        .map { |part| part.new(server, contestants, @options, @missing) }
    end

    def measure(part, placements, report)
      (part.everywhere? ? placements : placements.first(1)).each do |placement|
        findings =
          part.run(placement) do |what|
            progress("#{part.class::TITLE}, #{placement.title}: #{what}")
          end
        [findings].flatten.compact.each { |finding| report.add(finding) }
      end
    end

    def finish(report)
      progress("")
      puts report
      puts "", "saved: #{report.save}"
      report.record if @options.record
    end

    # Returns the contestants that can run on this machine. The report names the others.
    def present(contestants)
      bundle = (contestants.none?(&:peer?) && (@options.parts & FIBERS).empty?) || bundled?
      contestants.reject do |one|
        if one.ours? && !File.exist?(EXTENSION)
          @missing[one.name] = "the extension is not compiled"
        elsif one.peer? && !bundle
          @missing[one.name] = "the gems of bench/Gemfile cannot be installed"
        end
      end
    end

    def bundled?
      environment = { "BUNDLE_GEMFILE" => GEMFILE, "RUBYOPT" => nil, "RUBYLIB" => nil }
      system(environment, "bundle", "check", out: File::NULL, err: File::NULL) ||
        system(environment, "bundle", "install", "--quiet")
    end

    def progress(text)
      $stderr.print("\r\e[K#{text}") if $stderr.tty?
    end
  end
end

begin
  Bench::Run.new(ARGV).call
rescue Interrupt
  abort "bench: interrupted"
rescue Bench::Failed, OptionParser::ParseError => e
  abort "bench: #{e.message}"
end
