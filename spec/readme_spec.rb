# frozen_string_literal: true

require "spec_helper"
require "support/postgres"
require "support/readme_examples"

# The README's examples do what it says. Each is a program of its own.
RSpec.describe "README.md" do
  file = File.expand_path("../README.md", __dir__)

  def environment(needs)
    env = { "PLOCK_URL" => "memory:", "PLOCK_SECRET" => nil }
    return env unless needs.include?("postgres")

    need(Support::Postgres::PROGRAMS)
    env.merge(discard(Support::Postgres.new.start, :stop).env)
  end

  examples = Support::ReadmeExamples.of(file)

  examples.each do |example|
    it "is right in the example at line #{example.line}" do
      output, status = ruby(example.runnable, env: environment(example.needs))
      expect(status).to be_success, output
      expect(output).to be_empty
    end
  end

  it "has a recipe for Minitest that keeps tests apart" do
    skip "minitest not installed" if Gem::Specification.find_all_by_name("minitest").empty?
    recipes = File.read(file).scan(Support::ReadmeExamples::MINITEST).flatten
    expect(recipes.size).to be(1)
    in_order = "require 'minitest/autorun'\nMinitest::Test.i_suck_and_my_tests_are_order_dependent!\n"
    output, status = ruby(in_order + recipes.first, env: environment([]))
    expect(status).to be_success, output
    expect(output).to match(/^2 runs, 2 assertions, 0 failures, 0 errors, 0 skips$/)
    without = recipes.first.sub(/^class Minitest::Test.*?^end$/m, "")
    expect(ruby(in_order + without, env: environment([])).first).to match(/^2 runs, 2 assertions, 1 failures/)
  end

  it "makes claims" do
    expect(examples.sum(&:claims)).to be > 10
  end
end
