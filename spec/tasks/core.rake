# frozen_string_literal: true

# The engine's own tests, without Ruby. They run as a plain build, as a build without Linux-only
# calls, and with sanitizers.

require "etc"
require "open3"
require_relative "../../bin/support/toolchain"

# Each variant has its own compiler, so that the code of both compilers is tested. Without clang,
# gcc compiles all variants. The plain variant reuses what lint:gcc has compiled.
CORE_VARIANTS = {
  plain: [:gcc, { WERROR: "1" }],
  portable: [:clang, { PORTABLE: "1" }],
  address: [:clang, { SAN: "address,undefined" }],
  thread: [:gcc, { SAN: "thread" }]
}.freeze

# Test programs mostly wait, though less under a sanitizer. So several run on each processor.
CORE_PROGRAMS_AT_ONCE = 3 * Etc.nprocessors

FUZZ_SECONDS = 10
LONG_FUZZ_SECONDS = 600

def core_make_words(goals, compiler, variables)
  settings = variables.map { |name, value| "#{name}=#{value}" }
  ["make", "--no-print-directory", "-C", CORE, *goals, "CC=#{compiler}", *settings]
end

def make_core(*goals, compiler, **variables) = sh(*core_make_words(goals, compiler, variables))

# These test programs take longest, so they start first.
CORE_LONGEST = %w[
  test_local_loss test_local_stopped test_local_retry test_waker test_local_trouble test_sentinel
].freeze
CORE_TESTS =
  (CORE_LONGEST | Dir["spec/core/test_*.c"].map { |source| File.basename(source, ".c") }.sort)
  .freeze

# Builds all test programs.
#
# @return [Array(String, Hash)] the compiler and the settings with which make must run the programs
def build_core(variant)
  name, variables = CORE_VARIANTS.fetch(variant)
  compiler = Toolchain.compiler(name) || Toolchain.gcc or abort "there is no C compiler"
  out = "build/#{variant == :plain ? "#{compiler}-werror" : variant}"
  make_core(*CORE_TESTS.map { |test| "#{out}/#{test}" }, compiler, OUT: out, **variables)
  [compiler, { OUT: out, **variables }]
end

# Builds all test programs, and then runs several at the same time.
def check_core(variant)
  require "parallel"
  compiler, settings = build_core(variant)
  failed = Parallel.map(CORE_TESTS, in_threads: CORE_PROGRAMS_AT_ONCE) do |name|
    words = core_make_words(["check"], compiler, { TESTS: name, **settings })
    output, status = Open3.capture2e(*words)
    puts output
    name unless status.success?
  end.compact
  abort "failed: #{failed.join(" ")} (#{variant})" if failed.any?
end

namespace :core do
  desc "C unit tests: plain, portable, ASan with UBSan, TSan"
  task test: CORE_VARIANTS.keys.map { |variant| "test:#{variant}" }

  CORE_VARIANTS.each_key { |variant| task("test:#{variant}") { check_core(variant) } }

  desc "Build the C unit tests of each variant but the plain one"
  task(:build) { (CORE_VARIANTS.keys - %i[plain]).each { |variant| build_core(variant) } }

  desc "libFuzzer on replies: rake 'core:fuzz[60]' for a minute a target"
  task :fuzz, [:seconds] do |_, arguments|
    compiler = Toolchain.clang or abort "clang is not installed"
    make_core("fuzz", compiler, FUZZ_SECONDS: arguments.fetch(:seconds, FUZZ_SECONDS))
  end

  desc "libFuzzer on replies, for ten minutes a target"
  task("fuzz:long") { Rake::Task["core:fuzz"].invoke(LONG_FUZZ_SECONDS) }
end
