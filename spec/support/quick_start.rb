# frozen_string_literal: true

require_relative "supervisor"

module Support
  # Each Ruby process that an example starts would need 0.2 s to load Bundler. Instead, the process
  # gets the folders of this process's gems, ready for its load path.
  module QuickStart
    BUNDLER = %r{-r\S*bundler/setup}.freeze

    def self.install
      return unless BUNDLER.match?(ENV.fetch("RUBYOPT", ""))

      folders = Gem.loaded_specs.each_value.flat_map(&:full_require_paths)
      program = File.join(Supervisor.folder, "gems.rb")
      File.write(program, "$LOAD_PATH.insert(Gem.load_path_insert_index, *#{folders.inspect})\n")
      ENV["RUBYOPT"] = ENV["RUBYOPT"].sub(BUNDLER, "-r#{program}")
      ENV.delete("BUNDLER_SETUP") # if it is set, newer versions of RubyGems load Bundler
    end
  end
end
