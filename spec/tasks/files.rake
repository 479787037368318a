# frozen_string_literal: true

desc "Check that the gem ships every tracked file of the library and nothing else"
task :files do
  shipped = Gem::Specification.load("plock.gemspec").files.sort
  tracked = `git ls-files CHANGELOG.md LICENSE README.md docs exe ext lib sig`.split("\n")
  abort "this is not a Git checkout" if tracked.empty?
  missing = tracked - shipped
  superfluous = shipped - tracked
  abort ["plock.gemspec leaves out:", *missing].join("\n  ") if missing.any?
  abort ["plock.gemspec takes in:", *superfluous].join("\n  ") if superfluous.any?
  puts "#{shipped.size} files, all tracked"
end
