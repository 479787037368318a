# frozen_string_literal: true

# The checks of bin/test. Each is a Rake task, and runs to its end even if others fail. A check
# whose tools are missing is skipped and named. The output of a failed check is repeated at the
# end, because a reader looks there first. The very last lines name the failures, for readers of a
# truncated log.

require "stringio"
require "terminal-table"
require "timeout"
require_relative "toolchain"

module Checks
  TIERS = %i[quick full nightly].freeze # each tier also runs the checks of the tiers before it

  # a check that runs longer is killed
  TIME_LIMITS_S = { quick: 1200, full: 3600, nightly: 18_000 }.freeze

  # If a check fails, its last KEPT_LINES lines are searched for failures, and its last LAST_LINES
  # lines are repeated. Each line is cut off after LINE_WIDTH characters.
  KEPT_LINES = 1000
  LAST_LINES = 60
  LINE_WIDTH = 300

  # NAMES_FAILURE matches the lines that name a failed example or program. For each failed check, at
  # most REASONS_SHOWN lines of RSpec's explanation and NAMES_SHOWN of those names are shown.
  NAMES_FAILURE = /\A(rspec |failed: )/.freeze
  REASONS_SHOWN = 30
  NAMES_SHOWN = 8

  SHOWN_WITHIN_S = 2

  # The nice value of :light checks. It gives them mostly the processor time that the :shared checks
  # do not use.
  NICE = 19

  # tier: the first of TIERS that runs the check.
  # until_tier: the first tier that does not run it, because another check of that tier does the
  # same more thoroughly.
  # beside: nil for a check that runs alone; otherwise :shared or :light. The :shared checks run one
  # after another. At the same time, the :light checks run one after another, with lower priority.
  Check = Struct.new(:task, :title, :missing, :tier, :beside, :until_tier, keyword_init: true) do
    def self.all = [*quick, *full, *nightly]

    def self.quick
      [
        new(task: "lint:gcc", title: "no warnings, gcc", missing: without(:gcc), beside: :light),
        new(task: "lint:ruby:changed", title: "no new offences, RuboCop", beside: :light,
            until_tier: :full),
        new(task: "lint:format", title: "C is formatted",
            missing: ("clang-format #{Toolchain::CLANG_TOOLS}" unless Toolchain.clang_format),
            beside: :light),
        new(task: "lint:tidy:changed", title: "no new warnings, clang-tidy",
            missing: without_tidy, beside: :light, until_tier: :full),
        new(task: "model", title: "model of the waiting protocol", beside: :light),
        new(task: "files", title: "the gem's list of files",
            missing: ("Git checkout" unless File.exist?(".git")), beside: :light),
        new(task: "signatures", title: "signatures in sig/", beside: :light),
        new(task: "spec", title: "specs without a database", beside: :shared),
        new(task: "core:test:plain", title: "core"),
        new(task: "spec:alone", title: "specs that measure time")
      ].each { |check| check.tier = :quick }
    end

    def self.full
      [
        new(task: "lint:clang", title: "no warnings, clang", missing: without(:clang),
            beside: :light),
        new(task: "core:build", title: "the core's tests are built", missing: without_sanitizers,
            beside: :light),
        new(task: "model:rules", title: "each rule of the model is needed", beside: :light),
        new(task: "model:local", title: "model of the local store", beside: :light),
        new(task: "lint:ruby", title: "no offences, RuboCop", beside: :light),
        new(task: "lint:tidy", title: "no warnings, clang-tidy",
            missing: without_tidy, beside: :light),
        new(task: "spec:slow", title: "specs that take long", beside: :shared),
        new(task: "spec:rails", title: "specs with Rails", beside: :shared),
        new(task: "spec:web", title: "web pages in a browser",
            missing: without_browser, beside: :shared),
        new(task: "spec:databases", title: "specs on databases, and of drop-ins", beside: :shared),
        new(task: "site:check", title: "documentation site", beside: :shared),
        new(task: "site:browser", title: "documentation site in a browser",
            missing: without_browser, beside: :shared),
        new(task: "spec:portable", title: "specs without Linux calls", beside: :shared),
        new(task: "spec:slow:alone", title: "slow specs that measure time"),
        new(task: "spec:databases:alone", title: "specs on databases that measure time"),
        new(task: "spec:portable:alone", title: "specs without Linux calls that measure time"),
        new(task: "core:test:portable", title: "core without Linux calls"),
        new(task: "core:test:address", title: "core, ASan and UBSan", missing: without_asan),
        new(task: "core:test:thread", title: "core, TSan", missing: without_tsan),
        new(task: "core:fuzz", title: "fuzzing replies",
            missing: without_fuzzer, until_tier: :nightly),
        new(task: "valgrind:some", title: "the binding's basics under valgrind",
            missing: without_program("valgrind"), until_tier: :nightly),
        new(task: "torture", title: "torture, with a witness",
            missing: without_program("redis-server"), until_tier: :nightly)
      ].each { |check| check.tier = :full }
    end

    def self.nightly
      [
        new(task: "core:fuzz:long", title: "fuzzing replies for long", missing: without_fuzzer),
        new(task: "valgrind", title: "specs under valgrind", missing: without_program("valgrind")),
        new(task: "torture:long", title: "torture for long, with a witness",
            missing: without_program("redis-server")),
        new(task: "spec:portable:others", title: "other specs without Linux calls"),
        new(task: "model:full", title: "model, all scenarios")
      ].each { |check| check.tier = :nightly }
    end

    # @return [Array<Check>] the checks of a tier
    def self.of(tier)
      reached = TIERS.take(TIERS.index(tier) + 1)
      all.select { |check| reached.include?(check.tier) && !reached.include?(check.until_tier) }
    end

    def self.without_tidy
      "clang-tidy #{Toolchain::CLANG_TOOLS}" unless Toolchain.clang_tidy
    end

    # @param names [Array<String>] the possible names of a program, the usual one first
    def self.without_program(*names)
      names.first if names.none? { |name| Toolchain.which(name) }
    end

    def self.without_browser = without_program("chromium", "chromium-browser", "google-chrome")

    def self.without_asan = without(either(:clang), "address,undefined")

    def self.without_tsan = without(:gcc, "thread")

    def self.without_sanitizers = without_asan || without_tsan

    def self.without_fuzzer = without(:clang, "fuzzer,address,undefined")

    def self.either(name) = Toolchain.compiler(name) ? name : :gcc

    def self.without(name, sanitizers = nil)
      compiler = Toolchain.compiler(name)
      return name.to_s unless compiler

      return if sanitizers.nil? || Toolchain.sanitizes?(compiler, sanitizers)

      "#{compiler} -fsanitize=#{sanitizers}"
    end

    # Runs the check, and records its outcome and its duration.
    #
    # @param output [IO, #write] receives the check's output
    def run(output)
      start = Checks.now
      @outcome = missing ? "skipped: no #{missing}" : outcome_of_task(output)
      @seconds = Checks.now - start
    end

    attr_reader :outcome, :seconds

    def failed? = outcome.start_with?("FAILED")

    def row = [task, title, outcome, format("%.1f s", seconds)]

    # @return [Array<String>] the last lines of the output
    def ending = @ending || []

    # @return [Array<String>] the failed examples and programs, or the outcome if the output names
    #   none
    def failures
      names = ending.grep(NAMES_FAILURE).uniq.last(NAMES_SHOWN)
      names.empty? ? [outcome] : names
    end

    # @return [Array<String>] the first lines of RSpec's last list of failures
    def reasons
      list = ending.drop((ending.rindex("Failures:") || ending.size) + 1)
      list.take_while { |line| !line.start_with?("Finished in ") }
          .reject(&:empty?).first(REASONS_SHOWN)
    end

    private

    def outcome_of_task(output)
      hears, says = IO.pipe(binmode: true)
      pid = Process.spawn(RbConfig.ruby, Gem.bin_path("rake", "rake"), "--silent", task,
                          in: File::NULL, out: says, err: says, pgroup: true)
      says.close
      Process.setpriority(Process::PRIO_PROCESS, pid, NICE) if beside == :light
      showing = Thread.new { show(hears, output) }
      status = Timeout.timeout(TIME_LIMITS_S.fetch(tier)) { Process.wait2(pid).last }
      status.success? ? "passed" : "FAILED"
    rescue Timeout::Error
      "FAILED: cut off"
    ensure
      Process.kill(:KILL, -pid) if pid && status.nil?
      showing&.join(SHOWN_WITHIN_S) # a process that the check left behind may keep the pipe open
    end

    # Writes the output as it arrives, so that even single dots are visible early.
    def show(source, output)
      @ending = []
      rest = "".b
      loop do
        part = source.readpartial(65_536)
        output.write(part)
        *lines, rest = (rest << part).split("\n", -1)
        note(lines)
      end
    rescue EOFError
      note([rest]) unless rest.empty?
    end

    def note(lines)
      shown = lines.map { |line| line.force_encoding(Encoding::UTF_8).scrub[0, LINE_WIDTH] }
      @ending = (@ending + shown).last(KEPT_LINES)
    end
  end

  module_function

  # Runs the checks of a tier. If there are prefixes, runs only those whose names begin with one of
  # them. A check of another tier also runs if its full name is given.
  def run(tier, prefixes)
    checks = chosen(tier, prefixes)
    together, others = checks.partition(&:beside)
    run_together(together)
    others.each { |check| announce(check) && check.run($stdout) }

    checks.select(&:failed?).each do |check|
      puts "", "== #{check.task} failed, and ended so:", check.ending.last(LAST_LINES)
    end
    summarize(checks)
    checks.none?(&:failed?)
  end

  def chosen(tier, prefixes)
    return Check.of(tier) if prefixes.empty?

    checks = Check.of(tier).select { |check| check.task.start_with?(*prefixes) }
    checks |= Check.all.select { |check| prefixes.include?(check.task) }
    checks.empty? ? abort("no such check; there are #{Check.all.map(&:task).join(", ")}") : checks
  end

  # Runs the :shared and the :light checks at the same time. Shows a check's output when the check
  # has ended, so that the outputs do not mix.
  def run_together(checks)
    mutex = Mutex.new
    threads = checks.group_by(&:beside).values.map do |lane|
      Thread.new do
        lane.each do |check|
          output = StringIO.new("".b)
          check.run(output)
          mutex.synchronize { announce(check) && $stdout.write(output.string) }
        end
      end
    end
    threads.each(&:join)
  end

  def announce(check)
    puts "", "== #{check.task}: #{check.title}" unless check.missing
    true
  end

  def summarize(checks)
    table = Terminal::Table.new(headings: %w[check what outcome time], rows: checks.map(&:row))
    table.align_column(3, :right)
    puts "", table
    passed, failed, skipped = %w[passed FAILED skipped].map do |word|
      checks.count { |check| check.outcome.start_with?(word) }
    end
    puts "checks: #{passed} passed, #{failed} failed, #{skipped} skipped"
    checks.select(&:failed?).each do |check|
      puts((check.reasons + check.failures).map { |line| "#{check.task}: #{line}" })
    end
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

if ARGV == ["--list"]
  Checks::Check.all.each do |check|
    puts "#{check.task.ljust(28)}#{check.tier.to_s.ljust(9)}#{check.title}"
  end
else
  $stdout.sync = true
  tier = ARGV.first&.delete_prefix("--")&.to_sym
  ARGV.shift if Checks::TIERS.include?(tier)
  default = ARGV.empty? ? :quick : :full
  exit Checks.run(Checks::TIERS.include?(tier) ? tier : default, ARGV)
end
