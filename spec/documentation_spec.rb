# frozen_string_literal: true

require "spec_helper"

# Compiles each `@example` in the documentation of the API, but does not run it. spec/readme_spec.rb
# runs the examples of the pages.
RSpec.describe "The documentation of the API" do
  root = File.expand_path("..", __dir__)

  # Matches a title, and the indented lines below it.
  example = /^(?<indent> *)# @example(?: (?<title>.+))?\n(?<code>(?:\k<indent>#(?:   .*)?\n)+)/

  Dir["#{root}/lib/**/*.rb"].sort.each do |file|
    File.read(file).scan(example) do
      match = Regexp.last_match
      next if match[:title]&.end_with?(".yml")

      line = match.pre_match.count("\n") + 1
      it "has Ruby in the example of #{file.delete_prefix("#{root}/")}:#{line}" do
        code = match[:code].gsub(/^ *#(?:   )?/, "")
        expect { RubyVM::InstructionSequence.compile(code) }.not_to raise_error
      end
    end
  end

  it "gives each example lines of its own" do
    texts = Dir["#{root}/lib/**/*.rb"].map { |file| File.read(file) }
    expect(texts.sum { |text| text.scan(/# @example/).size })
      .to eq(texts.sum { |text| text.scan(example).size })
  end
end
