# frozen_string_literal: true

# Compiles the engine, the C tests and the binding with both compilers. A warning is an error.

require_relative "../../bin/support/toolchain"

desc "Compile with gcc and clang without a warning; look for offences with RuboCop and clang-format"
task :lint

%i[gcc clang].each do |name|
  task "lint:#{name}" do
    compiler = Toolchain.compiler(name) or abort "#{name} is not installed"
    # core:test runs what gcc compiles here, so gcc needs the usual options
    quickly = name == :gcc ? {} : { OPTIMIZE: "-O0", OUT: "build/#{name}-lint" }
    make_core("compile", compiler, WERROR: "1", **quickly)

    folder = "tmp/lint/#{name}"
    mkdir_p folder
    # the core is compiled above
    binding = Dir["ext/plock/*.c"].map { |source| "#{File.basename(source, ".c")}.o" }
    chdir(folder) do
      sh({ "PLOCK_WERROR" => "1" }, RbConfig.ruby, "../../../ext/plock/extconf.rb")
      sh "make", "CC=#{compiler}", *binding
    end
  end
  task lint: "lint:#{name}" if Toolchain.compiler(name)
end

# The files that differ from the upstream branch.
module Changed
  module_function

  def names
    upstream = git("rev-parse", "--verify", "--quiet", "@{upstream}").first
    git("diff", "--name-only", "--diff-filter=d", upstream || "HEAD") +
      git("ls-files", "--others", "--exclude-standard")
  end

  def git(*words) = IO.popen(["git", *words], err: File::NULL, &:readlines).map(&:chomp)
end

def rubocop(*arguments)
  ruby Gem.bin_path("rubocop", "rubocop"), "--cache-root", "tmp/rubocop", "--format", "simple",
       *arguments
end

task("lint:ruby") { rubocop }
task lint: "lint:ruby"

task "lint:ruby:changed" do
  names = Changed.names
  next if names.empty?

  names = [] if names.include?(".rubocop.yml") # a change to the rules affects all files
  rubocop("--force-exclusion", "--only-recognized-file-types", *names)
end

C_SOURCES = FileList["{ext,spec,bench}/**/*.{c,h}"].exclude(%r{/(build|tmp)/})

def clang_tool(name, *arguments)
  program = Toolchain.public_send(name) or
    abort "#{name.to_s.tr("_", "-")} #{Toolchain::CLANG_TOOLS} is not installed"
  sh program, *arguments, verbose: false
end

task "lint:format" do
  clang_tool :clang_format, "--dry-run", "-Werror", *C_SOURCES
end
task lint: "lint:format" if Toolchain.clang_format

# The sources that clang-tidy must check.
module Tidy
  SOURCES = FileList["ext/plock/{*,core/src/**/*}.c"]
  HEADERS = FileList["ext/plock/{*,core/{include,src}/**/*}.h"]

  module_function

  # The sources that have changed, or that include a changed header.
  def changed
    names = Changed.names
    headers = (HEADERS.to_a & names).map { |header| File.basename(header) }
    including = %r{#include ".*\b#{Regexp.union(headers)}"}
    SOURCES.select do |source|
      names.include?(source) || (headers.any? && File.read(source).match?(including))
    end
  end

  # The sources that must be checked. A source that has passed is checked again only after a change
  # to the source, to the rules or to a header. Warnings of clang-tidy are errors (.clang-tidy).
  def stale(sources)
    shared = [".clang-tidy", *HEADERS]
    sources.reject do |source|
      stamp = "tmp/tidy/#{source}"
      File.exist?(stamp) && [source, *shared].all? { |file| File.mtime(file) < File.mtime(stamp) }
    end
  end
end

def tidy(sources)
  make_core("scripts", Toolchain.gcc)
  return if sources.empty?

  folders = %w[ext/plock/core/include ext/plock/core/src ext/plock/core/build/gcc] +
            RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir")
  clang_tool :clang_tidy, "--quiet", *sources,
             "--", "-std=c11", "-D_GNU_SOURCE", *folders.map { |folder| "-I#{folder}" }
  sources.each do |source|
    mkdir_p File.dirname("tmp/tidy/#{source}"), verbose: false
    touch "tmp/tidy/#{source}", verbose: false
  end
end

task "lint:tidy" do
  tidy(Tidy.stale(Tidy::SOURCES))
end

task "lint:tidy:changed" do
  tidy(Tidy.stale(Tidy.changed))
end
task lint: "lint:tidy" if Toolchain.clang_tidy

desc "Format the C sources"
task :format do
  clang_tool :clang_format, "-i", *C_SOURCES
end
