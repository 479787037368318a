# frozen_string_literal: true

require "open3"
require "tmpdir"

# The tools of this machine for building and checking.
module Toolchain
  NEWEST_CLANG = 21
  OLDEST_CLANG = 13

  module_function

  # On Debian, clang may only exist under a name with its version, such as clang-14.
  def clang
    @clang ||=
      first_of("clang", *NEWEST_CLANG.downto(OLDEST_CLANG).map { |version| "clang-#{version}" })
  end

  # On macOS, gcc is another name for clang. The checks with gcc then repeat those with clang, which
  # does no harm.
  def gcc = @gcc ||= first_of("gcc", "cc")

  def compiler(name) = public_send(name)

  # The only version that is used, because other versions of clang-format break some lines in other
  # places.
  CLANG_TOOLS = 14

  def clang_format = @clang_format ||= clang_tool("clang-format")

  def clang_tidy = @clang_tidy ||= clang_tool("clang-tidy")

  def clang_tool(tool)
    ["#{tool}-#{CLANG_TOOLS}", tool].find do |name|
      which(name) && Open3.capture2(name, "--version").first[/version (\d+)/, 1].to_i == CLANG_TOOLS
    end
  end

  def first_of(*names) = names.find { |name| which(name) }

  def which(name)
    ENV
      .fetch("PATH")
      .split(File::PATH_SEPARATOR)
      .map { |folder| File.join(folder, name) }
      .find { |path| File.file?(path) && File.executable?(path) }
  end

  # Some compilers lack the libraries of their sanitizers, and only linking a program shows that.
  def sanitizes?(compiler, sanitizers)
    @sanitizes ||= Hash.new { |known, pair| known[pair] = probe(*pair) }
    @sanitizes[[compiler, sanitizers]]
  end

  def probe(compiler, sanitizers)
    Dir.mktmpdir do |folder|
      source = File.join(folder, "probe.c")
      File.write(source, sanitizers.include?("fuzzer") ? FUZZ_PROBE : PROBE)
      _, status =
        Open3.capture2e(
          compiler, "-fsanitize=#{sanitizers}", source, "-o", File.join(folder, "probe")
        )
      status.success?
    end
  end

  PROBE = "int main(void) { return 0; }\n"
  FUZZ_PROBE = "int LLVMFuzzerTestOneInput(const char *data, unsigned long size) " \
               "{ (void)data; (void)size; return 0; }\n"
end
