# frozen_string_literal: true

require "spec_helper"
require "open3"

RSpec.describe "bin/test" do
  root = File.expand_path("..", __dir__)

  define_method(:checks) do |*arguments|
    Open3.capture2e(RbConfig.ruby, "#{root}/bin/support/checks.rb", *arguments, chdir: root)
  end

  # The names of all checks of a tier.
  names = nil
  define_method(:names) do |tier|
    names ||= begin
      program = "ARGV.replace(['--list']); load 'bin/support/checks.rb'; " \
                "Checks::TIERS.each { |tier| puts '--', Checks::Check.of(tier).map(&:task) }"
      output, status = Open3.capture2e(RbConfig.ruby, "-e", program, chdir: root)
      expect(status).to be_success, output
      %w[quick full nightly].zip(output.split("--\n").drop(1).map(&:split)).to_h
    end
    names.fetch(tier)
  end

  it "names its checks, which are tasks of Rake" do
    output, status = checks("--list")
    expect(status).to be_success, output
    listed = output.lines.map { |line| line.split.first }
    tasks, =
      Open3.capture2(RbConfig.ruby, Gem.bin_path("rake", "rake"), "--all", "--tasks", chdir: root)
    expect(listed - tasks.scan(/^rake ([\w:]+)/).flatten).to be_empty
  end

  it "runs in each tier what the one before runs, or more of the same" do
    quick, full, nightly = %w[quick full nightly].map { |tier| names(tier) }
    expect(quick.map { |name| name.delete_suffix(":changed") } - full).to be_empty
    expect((full - nightly).map { |name| name.delete_suffix(":some") })
      .to all(satisfy { |name| nightly.any? { |longer| [name, "#{name}:long"].include?(longer) } })
  end

  it "explains each check in CONTRIBUTING.md" do
    table = File.read("#{root}/CONTRIBUTING.md")
    all = %w[quick full nightly].flat_map { |tier| names(tier) }
    expect(all).to all(satisfy { |name| table.include?("`#{name}`") })
  end

  it "says which checks there are when it knows none of that name" do
    output, status = checks("nonsense")
    expect(status).not_to be_success
    expect(output).to match(/no such check; there are lint:gcc, .*model:full/)
  end

  it "says what it skipped, and why" do
    program = <<~RUBY
      ARGV.replace(["--list"])
      load "bin/support/checks.rb"
      check = Checks::Check.new(task: "valgrind", title: "t", missing: "valgrind", tier: :full)
      check.run($stdout)
      Checks.summarize([check])
    RUBY
    output, = Open3.capture2e(RbConfig.ruby, "-e", program, chdir: root)
    expect(output).to include("skipped: no valgrind", "checks: 0 passed, 0 failed, 1 skipped")
  end

  # For each ending of a failed check's output, returns the last lines that bin/test prints.
  define_method(:last_lines) do |*endings|
    program = <<~RUBY
      ARGV.replace(["--list"])
      load "bin/support/checks.rb"
      #{endings.inspect}.each do |ending|
        check = Checks::Check.new(task: "spec", title: "t", tier: :full)
        check.define_singleton_method(:ending) { ending }
        def check.outcome = "FAILED: cut off"
        def check.seconds = 1.0
        Checks.summarize([check])
      end
    RUBY
    output, = Open3.capture2e(RbConfig.ruby, "-e", program, chdir: root)
    output.split(/^checks: 0 passed, 1 failed, 0 skipped\n/).drop(1).map do |part|
      part.lines(chomp: true).take_while { |line| line.start_with?("spec: ") }
    end
  end

  it "says in its last lines what failed, and why, or how a check ended that names nothing" do
    named = ["failed: test_call (build)", "1 example", "rspec ./a_spec.rb:7 # b"]
    explained = ["Failures:", "", "  1) a b", "     expected: 1", "Finished in 1 s", "end",
                 "rspec ./a_spec.rb:7 # a b"]
    expect(last_lines(named, explained, ["error"])).to eq(
      [["spec: failed: test_call (build)", "spec: rspec ./a_spec.rb:7 # b"],
       ["spec:   1) a b", "spec:      expected: 1", "spec: rspec ./a_spec.rb:7 # a b"],
       ["spec: FAILED: cut off"]]
    )
  end
end
