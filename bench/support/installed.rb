# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"
require_relative "bench"

module Bench
  # Gems as a user has them: built, and installed in their own empty folder.
  class Installed
    # If a child inherited these environment variables, it would use this process's bundle.
    CLEAN = {
      "RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil, "BUNDLER_SETUP" => nil
    }.freeze

    def self.open
      Dir.mktmpdir("plock-bench-gems") { |folder| yield new(folder) }
    end

    def initialize(folder)
      @folder = folder
    end

    # The environment for the installed commands.
    def environment = CLEAN.merge("GEM_HOME" => home, "GEM_PATH" => home)

    # Builds and installs the gem whose specification is in this folder. Returns the path of its
    # command.
    def command(name, from:)
      built = File.join(@folder, "#{name}.gem")
      gem("build", "#{name}.gemspec", "--output", built, chdir: from)
      gem("install", "--local", "--no-document", built, chdir: from)
      File.join(home, "bin", name)
    end

    # Returns the path of an empty gem's command. Its running time is the startup time of Ruby and
    # RubyGems.
    def empty_command
      folder = folder("empty")
      File.write(File.join(folder("empty/exe"), "empty"), "#!/usr/bin/env ruby\n")
      File.write(File.join(folder, "empty.gemspec"), <<~RUBY)
        Gem::Specification.new("empty", "1.0") do |spec|
          spec.summary = spec.author = "empty"
          spec.files = ["exe/empty"]
          spec.bindir = "exe"
          spec.executables = ["empty"]
        end
      RUBY
      command("empty", from: folder)
    end

    # Makes a folder with this name, and returns its path.
    def folder(name) = File.join(@folder, name).tap { |path| FileUtils.mkdir_p(path, mode: 0o700) }

    private

    def home = File.join(@folder, "home")

    def gem(*words, chdir:)
      output, status =
        Open3.capture2e(environment, RbConfig.ruby, "-S", "gem", *words, chdir: chdir)
      status.success? or
        raise Failed, "gem #{words.first} failed: #{output.lines.last(3).join.strip}"
    end
  end
end
