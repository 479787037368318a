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

  it "makes claims" do
    expect(examples.sum(&:claims)).to be > 10
  end
end
