# frozen_string_literal: true

require "spec_helper"
require "open3"
require "rbconfig"
require "tmpdir"

# The documentation of the public API, made by YARD with the options of .yardopts.
RSpec.describe "YARD" do
  def run_yard(*arguments)
    output, status = Open3.capture2e(
      RbConfig.ruby, Gem.bin_path("yard", "yard"), *arguments,
      chdir: File.expand_path("..", __dir__)
    )
    expect(status).to be_success, output
    output
  end

  it "finds a description of everything that is public, and nothing to warn of", :slow do
    output = run_yard("stats", "--list-undoc")
    expect(output).to include("100.00% documented"), output
    expect(output).not_to match(/^\[\w+\]:/), output
  end

  it "resolves all links", :slow do
    Dir.mktmpdir("plock-yard") do |folder|
      output = run_yard("doc", "--output-dir", folder)
      expect(output).not_to match(/^\[\w+\]:/), output
    end
  end
end
