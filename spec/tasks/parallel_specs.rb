# frozen_string_literal: true

require "etc"

# Runs spec files in several processes, each with servers of its own, and the examples that
# measure time after them, one after the other.
module ParallelSpecs
  extend Rake::DSL

  # Most examples wait more than they compute: two processors are busy with this many. More would
  # keep each other waiting for longer than the leases of the examples last.
  PROCESSES = Integer(ENV.fetch("PLOCK_SPEC_PROCESSES") { Etc.nprocessors + 2 })

  # Seconds that each file took once. Files are shared out by them, so that all processes end at
  # about the same time.
  RUNTIMES = "spec/support/runtimes.log"
  FOLDER = "tmp/specs"

  # Tags of examples that measure time, or that need the machine for themselves.
  ALONE = %w[timing alone].freeze
  # Tags of examples that bin/test leaves to bin/test --full, and of those among them that have a
  # tag of ALONE, too.
  FULL = %w[slow databases].freeze
  FULL_ALONE = %w[full_alone].freeze

  module_function

  def run(files, environment: {}, processes: PROCESSES)
    together(files, environment: environment, processes: processes)
    alone(files, environment: environment)
  end

  # @param with [Array<String>] tags of which an example must have one
  # @param without [Array<String>] tags of which an example must have none
  def together(files, with: [], without: ALONE, environment: {}, processes: PROCESSES)
    mkdir_p FOLDER, verbose: false
    failed = File.join(FOLDER, "failed-#{Process.pid}.log")
    options = [*tags(with, without), "--format progress",
               "--format ParallelTests::RSpec::FailuresLogger --out #{failed}",
               "--format ParallelTests::RSpec::RuntimeLogger",
               "--out #{FOLDER}/runtimes-#{Process.pid}.log"]
    environment = { "PARALLEL_TESTS_EXECUTABLE" => "#{RbConfig.ruby} #{rspec}", **environment }
    passed = system(environment, RbConfig.ruby, Gem.bin_path("parallel_tests", "parallel_rspec"),
                    "-n", processes.to_s, "--group-by", "runtime", "--runtime-log", RUNTIMES,
                    "--allowed-missing", "100", "--serialize-stdout", "--combine-stderr",
                    "--test-options", options.join(" "), "--", *files)
    return if passed

    list = File.exist?(failed) ? File.read(failed) : ""
    abort "To run what failed again:\n#{list}"
  end

  def alone(files, with: ALONE, without: [], environment: {})
    options = tags(with, without).flat_map(&:split)
    system(environment, RbConfig.ruby, rspec, *options, *files) or abort
  end

  def rspec = Gem.bin_path("rspec-core", "rspec")

  def tags(with, without)
    with.map { |tag| "--tag #{tag}" } + without.map { |tag| "--tag ~#{tag}" }
  end

  # Takes what the last runs have logged into the file of run times. Files whose examples are all
  # defined in spec/support are logged under that file's name: their times are estimates, and stay
  # as they are.
  def note_runtimes
    recent = Dir["#{FOLDER}/runtimes-*.log"].sort_by { |log| File.mtime(log) }
    times = [RUNTIMES, *recent].flat_map { |log| File.read(log).scan(/^(.+):(.+)$/) }.to_h
    there = times.select { |file, _| file.end_with?("_spec.rb") && File.exist?(file) }.sort
    lines = there.map { |file, seconds| format("%s:%.1f\n", file, seconds.to_f) }
    File.write(RUNTIMES, lines.join)
  end
end
