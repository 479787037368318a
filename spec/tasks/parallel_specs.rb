# frozen_string_literal: true

require "etc"

require_relative "safe_compaction"

# Runs spec files in several processes, each with servers of its own. Examples that measure time
# run separately, one after another.
module ParallelSpecs
  extend Rake::DSL

  # Most examples wait more than they compute, so there are a few more processes than processors.
  # With even more processes, delays would be longer than the leases of the examples.
  PROCESSES = Integer(ENV.fetch("PLOCK_SPEC_PROCESSES") { Etc.nprocessors + 2 })

  # A folder. For each task, it has a file with the seconds that each spec file took. These times
  # serve to distribute the spec files, so that all processes end at about the same time.
  RUNTIMES = "spec/support/runtimes"
  FOLDER = "tmp/specs"

  # The run times of these spec files are estimates. Most of their examples are defined in
  # spec/support, and the log has the times of those examples under the files in spec/support.
  ESTIMATED = %r{store/(advisory|database)_contract}.freeze

  # Tags of examples that measure time, or that must run alone on the machine.
  ALONE = %w[timing alone].freeze
  # FULL has tags of examples that only `bin/test --full` runs. If such an example also has a tag of
  # ALONE, it has the tag in FULL_ALONE.
  FULL = %w[slow databases].freeze
  FULL_ALONE = %w[full_alone].freeze

  module_function

  # @param task [Symbol] selects the file of run times
  # @param with [Array<String>] tags; an example must have at least one of them
  # @param without [Array<String>] tags; an example must have none of them
  def together(task, files, with: [], without: ALONE, environment: {}, processes: PROCESSES)
    mkdir_p FOLDER, verbose: false
    failed = File.join(FOLDER, "failed-#{Process.pid}.log")
    options = [*tags(with, without), "--format progress",
               "--format ParallelTests::RSpec::FailuresLogger --out #{failed}",
               "--format ParallelTests::RSpec::RuntimeLogger",
               "--out #{FOLDER}/#{task}-#{Process.pid}.log"]
    environment = { "PARALLEL_TESTS_EXECUTABLE" => "#{RbConfig.ruby} #{rspec}", **SAFE_COMPACTION,
                    **environment }
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
    system({ **SAFE_COMPACTION, **environment }, RbConfig.ruby, rspec, *options, *files) or abort
  end

  def rspec = Gem.bin_path("rspec-core", "rspec")

  def tags(with, without)
    with.map { |tag| "--tag #{tag}" } + without.map { |tag| "--tag ~#{tag}" }
  end

  # Updates the files of run times from the logs of the last runs. A spec file that no log names
  # keeps its old time, or gets the time zero.
  #
  # @param tasks [Hash{Symbol => Enumerable<String>}] the spec files of each task
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
