# frozen_string_literal: true

require "etc"

# Runs spec files in several processes, each with servers of its own, and the examples that
# measure time apart from them, one after the other.
module ParallelSpecs
  extend Rake::DSL

  # Most examples wait more than they compute: two processors are busy with this many. More would
  # keep each other waiting for longer than the leases of the examples last.
  PROCESSES = Integer(ENV.fetch("PLOCK_SPEC_PROCESSES") { Etc.nprocessors + 2 })

  # For each task, the seconds that each file took there once. Files are shared out by them, so that
  # all processes end at about the same time.
  RUNTIMES = "spec/support/runtimes"
  FOLDER = "tmp/specs"

  # Most of their examples are defined in spec/support, and logged under that file's name. So their
  # times are estimates.
  ESTIMATED = %r{store/(advisory|database)_contract}.freeze

  # Tags of examples that measure time, or that need the machine for themselves.
  ALONE = %w[timing alone].freeze
  # Tags of examples that bin/test leaves to bin/test --full, and of those among them that have a
  # tag of ALONE, too.
  FULL = %w[slow databases].freeze
  FULL_ALONE = %w[full_alone].freeze

  module_function

  # @param task [Symbol] names the run times
  # @param with [Array<String>] tags of which an example must have one
  # @param without [Array<String>] tags of which an example must have none
  def together(task, files, with: [], without: ALONE, environment: {}, processes: PROCESSES)
    mkdir_p FOLDER, verbose: false
    failed = File.join(FOLDER, "failed-#{Process.pid}.log")
    options = [*tags(with, without), "--format progress",
               "--format ParallelTests::RSpec::FailuresLogger --out #{failed}",
               "--format ParallelTests::RSpec::RuntimeLogger",
               "--out #{FOLDER}/#{task}-#{Process.pid}.log"]
    environment = { "PARALLEL_TESTS_EXECUTABLE" => "#{RbConfig.ruby} #{rspec}", **environment }
    passed = system(environment, RbConfig.ruby, Gem.bin_path("parallel_tests", "parallel_rspec"),
                    "-n", processes.to_s, "--group-by", "runtime",
                    "--runtime-log", "#{RUNTIMES}/#{task}.log", "--allowed-missing", "100",
                    "--serialize-stdout", "--combine-stderr",
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

  # Takes what the last runs have logged into the files of run times. A file of which nothing ran
  # takes no time.
  #
  # @param tasks [Hash{Symbol => Enumerable<String>}] the files of each task
  def note_runtimes(tasks)
    tasks.each do |task, files|
      noted = "#{RUNTIMES}/#{task}.log"
      recent = Dir["#{FOLDER}/#{task}-*.log"].sort_by { |log| File.mtime(log) }
      times = times_in([noted]).merge(times_in(recent).reject { |file, _| ESTIMATED.match?(file) })
      lines = files.sort.map { |file| format("%s:%.1f\n", file, times.fetch(file, 0).to_f) }
      File.write(noted, lines.join)
    end
  end

  def times_in(logs) = logs.flat_map { |log| File.read(log).scan(/^(.+):([\d.]+)$/) }.to_h
end
