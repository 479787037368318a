# frozen_string_literal: true

require "spec_helper"
require "support/documents"
require "support/postgres"

# Runs each example in README.md and docs/ as a program of its own, and compares its values with
# those on the page. Also checks the links between pages.
RSpec.describe "README.md and docs/" do
  pages = Support::Documents.pages

  def environment(needs)
    env = { "PLOCK_URL" => "memory:", "PLOCK_SECRET" => nil }
    return env unless needs.include?("postgres")

    need(Support::Postgres::PROGRAMS)
    env.merge(discard(Support::Postgres.new.start, :stop).env)
  end

  pages.each do |page|
    page.examples.each do |example|
      it "has an example that does what it says at #{page.path}:#{example.line}" do
        output, status = ruby(example.runnable, env: environment(example.needs))
        expect(status).to be_success, output
        expect(output).to be_empty
      end
    end

    it "has only links that lead somewhere in #{page.path}" do
      broken = (page.links + page.images).filter_map { |link| page.broken(link) }
      expect(broken).to be_empty, broken.join("\n")
    end
  end

  def recipe(framework)
    skip "#{framework} not installed" if Gem::Specification.find_all_by_name(framework).empty?
    found = Support::Documents.pages.flat_map(&:recipes).select { |name, _| name == framework }
    expect(found.size).to be(1)
    found.first.last
  end

  it "has a recipe for Minitest that keeps tests apart" do
    in_order = <<~RUBY
      require 'minitest/autorun'
      Minitest::Test.i_suck_and_my_tests_are_order_dependent!
    RUBY
    program = in_order + recipe("minitest")
    output, status = ruby(program, env: environment([]))
    expect(status).to be_success, output
    expect(output).to match(/^5 runs, \d+ assertions, 0 failures, 0 errors, 0 skips$/)
    nothing = "def before_setup = nil\ndef after_teardown = nil\n"
    without = program.sub(/^  include .*\n/) { "#{$&}#{nothing}" }
    expect(ruby(without, env: environment([])).first).to match(
      /^5 runs, \d+ assertions, [1-9]\d* failures/
    )
  end

  it "has a recipe for RSpec that works" do
    program = "require 'rspec/autorun'\n#{recipe("rspec")}"
    output, status = ruby(program, env: environment([]))
    expect(status).to be_success, output
    expect(output).to match(/^3 examples, 0 failures$/)
  end

  it "makes claims in its examples" do
    expect(pages.flat_map(&:examples).sum(&:claims)).to be >= 55
  end
end
