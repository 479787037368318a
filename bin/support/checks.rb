# frozen_string_literal: true

# What bin/test runs: Rake tasks, one after the other, to the last one whatever fails. A check without its tools is
# skipped by name. How a check that failed ended is said once more at the end, where whoever looks at a log looks first.

require "terminal-table"
require "timeout"
require_relative "toolchain"

module Checks
  TIME_LIMIT_S = 2700 # what hangs is ended; valgrind takes 1,500 on two processors, or more on slow ones

  # Of the output of a check that failed: how many of the last lines are repeated, and what at most of each.
  LAST_LINES = 60
  LINE_WIDTH = 300

  SHOWN_WITHIN_S = 2

  Check = Struct.new(:task, :title, :missing, keyword_init: true) do
    def self.all
      [
        *%i[gcc clang].map { |name| new(task: "lint:#{name}", title: "no warnings, #{name}", missing: without(name)) },
        new(task: "core:test:plain", title: "core"),
        new(task: "core:test:portable", title: "core without Linux calls"),
        new(task: "core:test:address", title: "core, ASan and UBSan", missing: without(either(:clang), "address,undefined")),
        new(task: "core:test:thread", title: "core, TSan", missing: without(:gcc, "thread")),
        new(task: "core:fuzz", title: "fuzzing replies", missing: without(:clang, "fuzzer,address,undefined")),
        new(task: "spec", title: "specs"),
        new(task: "spec:databases", title: "specs on databases, and of front doors"),
        new(task: "spec:portable", title: "specs without Linux calls"),
        new(task: "valgrind", title: "specs under valgrind", missing: ("valgrind" unless Toolchain.which("valgrind"))),
        new(task: "model", title: "model of the waiting protocol"),
        new(task: "torture", title: "torture, with a witness", missing: ("redis-server" unless Toolchain.which("redis-server"))),
        new(task: "files", title: "the gem's list of files"),
        new(task: "signatures", title: "signatures in sig/")
      ]
    end

    def self.either(name) = Toolchain.compiler(name) ? name : :gcc

    def self.without(name, sanitizers = nil)
      compiler = Toolchain.compiler(name)
      return name.to_s unless compiler

      "#{compiler} -fsanitize=#{sanitizers}" unless sanitizers.nil? || Toolchain.sanitizes?(compiler, sanitizers)
    end

    def run
      return "skipped: no #{missing}" if missing

      puts "", "== #{task}: #{title}"
      hears, says = IO.pipe(binmode: true)
      pid = Process.spawn(RbConfig.ruby, Gem.bin_path("rake", "rake"), "--silent", task, in: File::NULL, out: says, err: says, pgroup: true)
      says.close
      showing = Thread.new { show(hears) }
      status = Timeout.timeout(TIME_LIMIT_S) { Process.wait2(pid).last }
      status.success? ? "passed" : "FAILED"
    rescue Timeout::Error
      "FAILED: cut off"
    ensure
      Process.kill(:KILL, -pid) if pid && status.nil?
      showing&.join(SHOWN_WITHIN_S) # a process that the check has left behind may have its output open
    end

    # @return [Array<String>] how the output ended
    def ending = @ending || []

    private

    # As it comes: dots, too, are to be seen while they are few.
    def show(output)
      @ending = []
      rest = "".b
      loop do
        part = output.readpartial(65_536)
        $stdout.write(part)
        *lines, rest = (rest << part).split("\n", -1)
        note(lines)
      end
    rescue EOFError
      note([rest]) unless rest.empty?
    end

    def note(lines)
      @ending = (@ending + lines.map { |line| line.force_encoding(Encoding::UTF_8).scrub[0, LINE_WIDTH] }).last(LAST_LINES)
    end
  end

  module_function

  def run(prefixes)
    checks = Check.all
    chosen = prefixes.empty? ? checks : checks.select { |check| check.task.start_with?(*prefixes) }
    abort "no such check; there are #{checks.map(&:task).join(", ")}" if chosen.empty?

    rows = chosen.map do |check|
      start = now
      [check.task, check.title, check.run, format("%.1f s", now - start)]
    end
    repeat(chosen.zip(rows).filter_map { |check, row| check if row[2].start_with?("FAILED") })
    summarize(rows)
    rows.none? { |_, _, outcome| outcome.start_with?("FAILED") }
  end

  def repeat(failed)
    failed.each { |check| puts "", "== #{check.task} failed, and ended so:", check.ending }
  end

  def summarize(rows)
    table = Terminal::Table.new(headings: ["check", "what", "outcome", "time"], rows: rows)
    table.align_column(3, :right)
    puts "", table
    passed, failed, skipped = %w[passed FAILED skipped].map { |word| rows.count { |row| row[2].start_with?(word) } }
    puts "checks: #{passed} passed, #{failed} failed, #{skipped} skipped"
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

if ARGV == ["--list"]
  Checks::Check.all.each { |check| puts "#{check.task.ljust(28)}#{check.title}" }
else
  $stdout.sync = true
  exit Checks.run(ARGV)
end
