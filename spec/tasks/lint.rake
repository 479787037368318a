# frozen_string_literal: true

# Core, C tests and binding without a warning, from either compiler.

require_relative "../../bin/support/toolchain"

desc "Compile with gcc and clang, warnings being errors; look for offences with RuboCop"
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
