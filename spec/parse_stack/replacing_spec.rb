# frozen_string_literal: true

require "spec_helper"
require "open3"

RSpec.describe "plock/parse_stack" do
  before do
    if Gem::Specification.find_all_by_name("parse-stack-next").empty?
      skip "parse-stack-next not installed (it takes Ruby 3.2)"
    end
  end

  let(:theirs) do
    File.join(Gem::Specification.find_by_name("parse-stack-next").full_gem_path, "lib")
  end
  let(:places) { <<~RUBY }
    places = [Parse::Lock.method(:acquire), Parse::LockBackend.method(:try_acquire),
              Parse::CreateLock.method(:synchronize)]
    puts places.map { |method|
      method.source_location.first.start_with?(#{Support::Examples::LIB.inspect})
    }.join(" ")
  RUBY

  def said(program, *options)
    arguments = options.flat_map { |folder| ["-I", folder] }
    output, status =
      Open3.capture2e(RbConfig.ruby, *arguments, "-I", Support::Examples::LIB, "-e", program)
    expect(status).to be_success, output
    output.lines(chomp: true)
  end

  it "puts plock's lock and its parts in the place of the gem's, and leaves the gem's own lock" do
    expect(said("require 'parse-stack-next'; require 'plock/parse_stack'\n#{places}")).to eq(
      ["true true false"]
    )
  end

  it "does so whichever comes first in the load path, and after the gem's own were used" do
    expect(said(<<~RUBY, theirs)).to eq(["false", "true true false"])
      require "parse-stack-next"
      puts Parse::Lock.method(:acquire).source_location.first
        .start_with?(#{Support::Examples::LIB.inspect})
      require "plock/parse_stack"
      #{places}
    RUBY
  end

  it "does so where plock was loaded before the gem" do
    expect(
      said(
        "require 'parse/lock'; require 'parse-stack-next'; require 'plock/parse_stack'\n#{places}"
      )
    ).to eq(["true true false"])
    expect(said("require 'parse/lock_backend'; Parse::LockBackend.reset!; " \
                "require 'parse-stack-next'; require 'plock/parse_stack'\n#{places}"))
      .to eq(["true true false"])
  end

  it "is not undone by a require of the gem's files" do
    expect(said("require 'parse-stack-next'; require 'plock/parse_stack'; " \
                "require 'parse/lock'; require 'parse/lock_backend'\n#{places}", theirs))
      .to eq(["true true false"])
  end

  it "leaves the errors what they were to those who rescue them" do
    expect(said(<<~RUBY, theirs)).to eq(["true", "Parse::Lock::TimeoutError"])
      require "parse-stack-next"
      errors = [Parse::Lock::TimeoutError, Parse::Lock::UnavailableError]
      require "plock/parse_stack"
      puts errors == [Parse::Lock::TimeoutError, Parse::Lock::UnavailableError], errors.first
    RUBY
  end

  it "does it without a warning" do
    output =
      said(
        "require 'parse-stack-next'; $VERBOSE = true; require 'plock/parse_stack'; Parse::Lock",
        theirs
      )
    expect(output.grep_v(/#{Regexp.escape(theirs)}/)).to be_empty
  end
end

RSpec.describe "plock/parse_stack without the gem" do
  it "says what to require before" do
    output, status = ruby("require 'plock/parse_stack'")
    expect(status).not_to be_success
    expect(output).to include(
      "require parse-stack-next before plock/parse_stack (Plock::UnsupportedError)"
    )
  end

  it "says from which version on it can be used" do
    output, =
      ruby("module Parse; module Stack; VERSION = '5.0.2'; end; end; require 'plock/parse_stack'")
    expect(output).to include(
      "plock/parse_stack needs parse-stack-next 5.1 or later (this is 5.0.2)"
    )
  end
end
