# frozen_string_literal: true

require "json"
require "rbconfig"
require_relative "bench"

module Bench
  # Pictures of findings. plotter.rb draws them in another process, because its gem is in the
  # bench's bundle.
  module Plots
    FOLDER = File.join(ROOT, "plots")
    PROGRAM = File.join(__dir__, "plotter.rb")

    module_function

    # Draws plots. Each has these keys: file (the name without its extension), title, x and y (the
    # axes, with units), and series (label => pairs of numbers above zero).
    def draw(plots)
      environment = { "BUNDLE_GEMFILE" => GEMFILE, "RUBYOPT" => nil, "RUBYLIB" => nil }
      command = [RbConfig.ruby, "-rbundler/setup", PROGRAM, FOLDER]
      IO.popen(environment, command, "w") { |io| io.write(JSON.generate(plots)) }
      $?.success? or raise Failed, "the pictures cannot be drawn: is bench/Gemfile installed?"
    end

    # Returns the pictures as Markdown, for bench/README.md.
    def links(plots) =
      plots.map { |plot| "![#{plot[:title]}: #{plot[:y]}](plots/#{plot[:file]}.svg)" }.join("\n")
  end
end
