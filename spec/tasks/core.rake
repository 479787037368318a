# frozen_string_literal: true

# The engine's own tests, without Ruby: each compiler, plain, under the sanitizers, and as another system would build it.

require_relative "../../bin/support/toolchain"

CORE_VARIANTS = {
  plain: {},
  portable: { PORTABLE: "1" },
  address: { SAN: "address,undefined" },
  thread: { SAN: "thread" }
}.freeze

FUZZ_SECONDS = 20

def make_core(goal, compiler, **variables)
  sh "make", "--no-print-directory", "-C", CORE, goal, "CC=#{compiler}", *variables.map { |name, value| "#{name}=#{value}" }
end

namespace :core do
  desc "C unit tests with every compiler that is here: plain, portable, ASan with UBSan, TSan"
  task :test

  %i[gcc clang].each do |name|
    CORE_VARIANTS.each do |variant, variables|
      task "test:#{name}:#{variant}" do
        compiler = Toolchain.compiler(name) or abort "#{name} is not installed"
        make_core("check", compiler, **variables)
      end
      task test: "test:#{name}:#{variant}" if Toolchain.compiler(name)
    end
  end

  desc "libFuzzer on replies: rake 'core:fuzz[600]' for ten minutes a target"
  task :fuzz, [:seconds] do |_, arguments|
    compiler = Toolchain.clang or abort "clang is not installed"
    make_core("fuzz", compiler, FUZZ_SECONDS: arguments.fetch(:seconds, FUZZ_SECONDS))
  end
end
