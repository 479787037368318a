# frozen_string_literal: true

# The gem's list of files, against the tree.

module GemFiles
  SPECIFICATION = "plock.gemspec"
  SHIPPED = %w[CHANGELOG.md LICENSE README.md {docs,exe,ext,lib,sig}/**/*].freeze
  BUILT = %w[ext/plock/Makefile ext/plock/core/build/** **/*.{bundle,inc,log,o,so}].freeze
  LIST = /(?<=spec\.files = %w\[\n).*?(?=^  \])/m

  module_function

  def listed = Gem::Specification.load(SPECIFICATION).files.sort

  def present
    Dir
      .glob(SHIPPED)
      .select do |path|
        File.file?(path) &&
          BUILT.none? { |pattern| File.fnmatch?(pattern, path, File::FNM_EXTGLOB) }
      end
      .sort
  end

  def write
    lines = present.map { |path| "    #{path}\n" }.join
    File.write(SPECIFICATION, File.read(SPECIFICATION).sub(LIST) { lines })
  end
end

desc "Check that the gem ships every file of the library and nothing else"
task :files do
  missing = GemFiles.present - GemFiles.listed
  superfluous = GemFiles.listed - GemFiles.present
  abort ["plock.gemspec does not list:", *missing].join("\n  ") if missing.any?
  abort ["plock.gemspec lists what is not there:", *superfluous].join("\n  ") if superfluous.any?
  puts "#{GemFiles.listed.size} files, all listed"
end

namespace :files do
  desc "Rewrite the list in plock.gemspec"
  task(:update) { GemFiles.write }
end
