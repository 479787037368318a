# frozen_string_literal: true

require "open3"
require "tmpdir"

# The tools of this machine to build and check.
module Toolchain
  NEWEST_CLANG = 21
  OLDEST_CLANG = 13

  module_function

  # Debian may have clang only under its numbered name.
  def clang
    @clang ||=
      first_of("clang", *NEWEST_CLANG.downto(OLDEST_CLANG).map { |version| "clang-#{version}" })
  end

  # On macOS gcc is another name of clang: then the second check is redundant, but not wrong.
  def gcc = @gcc ||= first_of("gcc", "cc")

  def compiler(name) = public_send(name)

  # Another version of clang-format breaks some lines in other places.
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

  # Some compilers come without the libraries of their sanitizers: only a link tells.
  def sanitizes?(compiler, sanitizers)
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
