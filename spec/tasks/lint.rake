# frozen_string_literal: true

# Core, C tests and binding without a warning, from either compiler.

require_relative "../../bin/support/toolchain"

desc "Compile with gcc and clang without a warning; look for offences with RuboCop and clang-format"
task :lint

%i[gcc clang].each do |name|
  task "lint:#{name}" do
    compiler = Toolchain.compiler(name) or abort "#{name} is not installed"
    make_core("compile", compiler, WERROR: "1")

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

def clang_format(*arguments)
  program = Toolchain.clang_format or
    abort "clang-format #{Toolchain::CLANG_FORMAT} is not installed"
  sh program, *arguments, *C_SOURCES, verbose: false
end

task "lint:format" do
  clang_format "--dry-run", "-Werror"
end
task lint: "lint:format" if Toolchain.clang_format

desc "Format the C sources"
task :format do
  clang_format "-i"
end
