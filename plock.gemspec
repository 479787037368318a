# frozen_string_literal: true

require_relative "lib/plock/version"

Gem::Specification.new do |spec|
  spec.name = "plock"
  spec.version = Plock::VERSION
  spec.authors = ["the plock authors"]
  spec.summary = "Distributed locks on Redis for Ruby, through a C core"
  spec.description = "Parse::Lock and Plock: one holder at a time across processes and machines, " \
                     "on one Redis. Hashing, tokens, protocol and timing are done in C; every " \
                     "call returns within its own budget."
  spec.license = "MIT"

  spec.required_ruby_version = ">= 3.1"
  spec.require_paths = ["lib"]
  spec.bindir = "exe"
  spec.executables = ["plock"]
  spec.extensions = ["ext/plock/extconf.rb"]

  # The name on rubygems.org belongs to another gem: this one is installed from a checkout or a Git
  # source.
  spec.metadata = { "allowed_push_host" => "https://localhost", "rubygems_mfa_required" => "true" }

  # `rake files` compares them with what the repository tracks.
  built = %w[ext/plock/Makefile ext/plock/core/build/** **/*.{bundle,inc,log,o,so}]
  spec.files = Dir["{docs,exe,ext,lib,sig}/**/*", "{CHANGELOG,README}.md", "LICENSE", base: __dir__]
    .select { |path| File.file?(File.join(__dir__, path)) }
    .reject { |path| built.any? { |pattern| File.fnmatch?(pattern, path, File::FNM_EXTGLOB) } }
end
