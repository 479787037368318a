# frozen_string_literal: true

# Sets plock beside the floor and its peers, all against one private server. `ruby bench/run.rb --help` lists the options.

require "shellwords"
require "tmpdir"
require_relative "support/bench"
require_relative "support/measuring"
require_relative "support/options"
require_relative "support/pinning"
require_relative "support/report"
require_relative "support/server"

module Bench
  class Run
    FLOOR_SOURCE = File.join(ROOT, "floor.c")
    EXTENSION = File.join(LIB, "plock", "plock.#{RbConfig::CONFIG["DLEXT"]}")

    def initialize(arguments)
      @options = Options.new(arguments)
      @missing = {}
    end

    def call
      placements = Pinning.placements(@options.placements, @options.cores)
      raise Failed, "this machine has no such placement" if placements.empty?

      Dir.mktmpdir("plock-bench") do |folder|
        floor = compile_floor(folder)
        contestants = present(@options.pick(Bench.contestants))
        Server.run(@options.server) { |server| measure(server, Measuring.new(server, contestants, floor, @options), placements) }
      end
    end

    private

    def measure(server, measuring, placements)
      report = Report.new(server.version, @options, @missing)
      placements.each_with_index do |placement, index|
        million = @options.million && index.zero? # memory does not depend on the core
        report.add(placement, measuring.run(placement, million: million) { |what| progress("#{placement.title}: #{what}") })
      end
      progress("")
      puts report
      puts "", "saved: #{report.save}"
      report.record if @options.record
    end

    def compile_floor(folder)
      program = File.join(folder, "floor")
      flags = IO.popen(%w[pkg-config --cflags --libs hiredis], &:read)
      raise Failed, "pkg-config does not find hiredis" unless $?.success?

      compiler = Shellwords.split(ENV.fetch("CC", "cc"))
      built = system(*compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", FLOOR_SOURCE, "-o", program, *Shellwords.split(flags))
      built ? program : raise(Failed, "floor.c does not compile")
    end

    # Those that can run here; the others are named in the report.
    def present(contestants)
      peers = contestants.none?(&:peer?) || bundled?
      contestants.reject do |one|
        if one.ours? && !File.exist?(EXTENSION)
          @missing[one.name] = "the extension is not compiled"
        elsif one.peer? && !peers
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
