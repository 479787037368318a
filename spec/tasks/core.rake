# frozen_string_literal: true

# The engine's own tests, without Ruby: each compiler, plain, under the sanitizers, and as another system would build it.

require_relative "../../bin/support/toolchain"

# Each with the compiler that runs it, so that what either makes is run; without clang it is gcc's turn.
CORE_VARIANTS = {
  plain: [:gcc, {}],
  portable: [:clang, { PORTABLE: "1" }],
  address: [:clang, { SAN: "address,undefined" }],
  thread: [:gcc, { SAN: "thread" }]
}.freeze

FUZZ_SECONDS = 10

def make_core(goal, compiler, **variables)
  sh "make", "--no-print-directory", "-C", CORE, goal, "CC=#{compiler}", *variables.map { |name, value| "#{name}=#{value}" }
end

namespace :core do
  desc "C unit tests: plain, portable, ASan with UBSan, TSan"
  task test: CORE_VARIANTS.keys.map { |variant| "test:#{variant}" }

  CORE_VARIANTS.each do |variant, (name, variables)|
    task "test:#{variant}" do
      compiler = Toolchain.compiler(name) || Toolchain.gcc or abort "there is no C compiler"
      make_core("check", compiler, **variables)
    end
  end

  desc "libFuzzer on replies: rake 'core:fuzz[600]' for ten minutes a target"
  task :fuzz, [:seconds] do |_, arguments|
    compiler = Toolchain.clang or abort "clang is not installed"
    make_core("fuzz", compiler, FUZZ_SECONDS: arguments.fetch(:seconds, FUZZ_SECONDS))
  end
end
