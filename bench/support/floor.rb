# frozen_string_literal: true

require "shellwords"
require "tmpdir"
require_relative "bench"

module Bench
  # Compiles the floor, which is a C program.
  module Floor
    SOURCE = File.join(ROOT, "floor.c")

    # Yields the path of the compiled program, and deletes the program afterwards.
    def self.compile
      Dir.mktmpdir("plock-bench") do |folder|
        program = File.join(folder, "floor")
        flags = IO.popen(%w[pkg-config --cflags --libs hiredis], &:read)
        raise Failed, "pkg-config does not find hiredis" unless $?.success?

        compiler = Shellwords.split(ENV.fetch("CC", "cc"))
        built =
          system(
            *compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", SOURCE, "-o", program,
            *Shellwords.split(flags)
          )
        built or raise Failed, "floor.c does not compile"
        yield program
      end
    end
  end
end
