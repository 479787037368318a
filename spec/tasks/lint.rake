# frozen_string_literal: true

# Core, C tests and binding compile without a warning, with both compilers.

require_relative "../../bin/support/toolchain"

desc "Compile with gcc and clang without a warning; look for offences with RuboCop and clang-format"
task :lint

%i[gcc clang].each do |name|
  task "lint:#{name}" do
    compiler = Toolchain.compiler(name) or abort "#{name} is not installed"
    # the tests run what gcc has compiled here
    quickly = name == :gcc ? {} : { OPTIMIZE: "-O0", OUT: "build/#{name}-lint" }
    make_core("compile", compiler, WERROR: "1", **quickly)

    folder = "tmp/lint/#{name}"
    mkdir_p folder
    chdir(folder) do
      sh({ "PLOCK_WERROR" => "1" }, RbConfig.ruby, "../../../ext/plock/extconf.rb")
      sh "make", "CC=#{compiler}"
    end
  end
  task lint: "lint:#{name}" if Toolchain.compiler(name)
end

task "lint:ruby" do
  ruby Gem.bin_path("rubocop", "rubocop"), "--cache-root", "tmp/rubocop", "--format", "simple"
end
task lint: "lint:ruby"

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

# Its warnings are errors (.clang-tidy). A source without warnings is looked at again when it, its
# rules or a header have changed.
task "lint:tidy" do
  make_core("scripts", Toolchain.gcc)
  folders = %w[ext/plock/core/include ext/plock/core/src ext/plock/core/build/gcc] +
            RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir")
  shared = FileList[".clang-tidy", "ext/plock/{*,core/{include,src}/**/*}.h"]
  changed = FileList["ext/plock/{*,core/src/**/*}.c"].reject do |source|
    stamp = "tmp/tidy/#{source}"
    File.exist?(stamp) && [source, *shared].all? { |file| File.mtime(file) < File.mtime(stamp) }
  end
  next if changed.empty?

  clang_tool :clang_tidy, "--quiet", *changed,
             "--", "-std=c11", "-D_GNU_SOURCE", *folders.map { |folder| "-I#{folder}" }
  changed.each do |source|
    mkdir_p File.dirname("tmp/tidy/#{source}"), verbose: false
    touch "tmp/tidy/#{source}", verbose: false
  end
end
task lint: "lint:tidy" if Toolchain.clang_tidy

desc "Format the C sources"
task :format do
  clang_tool :clang_format, "-i", *C_SOURCES
end
