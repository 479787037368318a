# frozen_string_literal: true

require "spec_helper"
require "support/command_line"

RSpec.describe "plock" do
  include Support::CommandLine

  # No command in these examples reaches a store.
  def plock_environment(env) =
    Support::CommandLine::ENVIRONMENT.merge("PLOCK_URL" => "redis://127.0.0.1:1").merge(env)

  commands = %w[run status list break wait secret doctor]

  it "lists its commands" do
    [%w[help], %w[--help], %w[-h]].each do |arguments|
      output, errors, status = plock(*arguments)
      expect([errors, status.exitstatus]).to eq ["", 0]
      expect(output.scan(/^  (\w+) {2,}\w/).flatten).to include(*commands)
    end
  end

  # RubyGems raises a RuntimeError of its own if a signal comes while it loads a file. If another
  # file loads that file, RubyGems raises a second RuntimeError.
  it "is ended by a signal that comes while it loads a file" do
    refusal = <<~RUBY
      require "plock/cli"
      def (Plock::CLI).command(name)
        Process.kill(:TERM, Process.pid) && sleep
      rescue SignalException
        begin
          raise "CRITICAL"
        rescue RuntimeError
          raise "CRITICAL again"
        end
      end
    RUBY
    *said, status = plock_after(refusal, "status", "x")
    expect([said, status.termsig]).to eq([["", ""], Signal.list["TERM"]])
  end

  # Status 1 would say that the key is held.
  {
    "NoMemoryError" => [71, "the system refuses what the command needs: too much"],
    "SystemStackError" => [70, "SystemStackError: too much"]
  }.each do |error, (expected, message)|
    it "exits with #{expected} if it ends with a #{error}" do
      refusal = "require \"plock/cli\"\ndef (Plock::CLI).command(_) = raise(#{error}, \"too much\")"
      output, errors, status = plock_after(refusal, "status", "x")
      expect([output, errors.lines.first, status.exitstatus]).to eq(
        ["", "plock: #{message}\n", expected]
      )
    end
  end

  it "exits with 71 if no thread or descriptor is left for the engine" do
    refusal = <<~RUBY
      require "plock"
      def (Plock::Store).open(*, **) = raise(Plock::UnavailableError.new("no", code: :descriptors))
    RUBY
    output, errors, status = plock_after(refusal, "status", "x")
    expect([output, errors, status.exitstatus]).to eq(["", "plock: no\n", 71])
  end

  it "exits with 71 if the system refuses it a thread" do
    refusal = <<~RUBY
      def Thread.new(*)
        raise(ThreadError, "can't create Thread: Resource temporarily unavailable")
      end
    RUBY
    _, errors, status = plock_after(refusal, "web", "--port", "0")
    expect([errors, status.exitstatus]).to match(
      [/^plock: the system refuses what the command needs: .*create Thread.*unavailable\n\z/, 71]
    )
  end

  it "exits with 70 if a thread fails otherwise" do
    refusal = 'def Thread.new(*) = raise(ThreadError, "a bug")'
    _, errors, status = plock_after(refusal, "web", "--port", "0")
    expect([errors, status.exitstatus]).to match([/^plock: ThreadError: a bug$/, 70])
  end

  commands.each do |name|
    it "says how #{name} is called" do
      output, errors, status = plock("help", name)
      expect([errors, status.exitstatus]).to eq ["", 0]
      expect(output).to start_with("Usage: plock #{name} ").and include("--store URL").and match(
        /^Exit status: |^Lists/
      )
      expect(plock(name, "--help").first).to eq output
    end
  end

  it "says which plock it is" do
    expect(plock("--version").first).to eq "plock #{Plock::VERSION}\n"
  end

  {
    [] => /which command\? run, status, list, break, wait, secret, doctor/,
    %w[statsu] => /there is no command statsu; did you mean status\?/,
    %w[help statsu] => /did you mean status\?/,
    %w[xyzzy] => /there is no command xyzzy$/,
    %w[--stor redis://h status k] => /unknown option --stor; options stand behind/,
    %w[status --jso=1 k] => /--jso takes no value/,
    %w[status --jsno k] => /unknown option --jsno; did you mean --json\?/,
    %w[status --nonsense k] => /unknown option --nonsense$/,
    %w[break k --yess] => /unknown option --yess; did you mean --yes\?/,
    %w[status k --store] => /--store needs a value/,
    %w[status] => /which key\?/,
    %w[status a b] => /one key at a time \(got 2\)/,
    %w[list a b] => /one pattern at a time/,
    %w[doctor k] => /no key is needed/,
    ["status", ""] => /key must be a String or Symbol that is not empty/,
    ["status", "k" * 1025] => /key exceeds 1024 bytes/,
    %w[status --store http://h k] => /URL/,
    %w[status --store memory: k] => /excludes only its own process/,
    %w[status --namespace a/b k] => /namespace must be/
  }.each do |arguments, message|
    it "exits with 64 for #{["plock", *arguments].join(" ")[0, 60]}, and says why" do
      output, errors, status = plock(*arguments)
      expect([output, status.exitstatus]).to eq ["", 64]
      expect(errors.lines.first).to start_with("plock: ").and match(message)
      expect(errors.lines[1..]).to match [/\ATry 'plock( \w+)? (--)?help'\.\n\z/]
    end
  end

  it "accepts unambiguous abbreviations of options" do
    expect(plock("run", "--a", "1", "k", "true")[1]).not_to include "ambiguous"
    # --l means --label, so the command fails only because it cannot reach the store
    expect(plock("run", "--l", "x", "k", "true").last.exitstatus).to eq 69
    expect(plock("break", "--y", "k").last.exitstatus).to eq 69
  end

  it "exits with 69 if the store is unreachable, and does not show its password" do
    output, errors, status =
      plock("status", "k", env: { "PLOCK_URL" => "redis://:sesame@127.0.0.1:1" })
    expect([output, status.exitstatus]).to eq ["", 69]
    expect(errors).to match(/\Aplock: redis:.*Connection refused\n\z/)
    expect(errors).not_to include "sesame"
  end

  it "prints nothing when a signal interrupts it" do
    server = discard(TCPServer.new("127.0.0.1", 0), :close) # accepts, but never answers
    url = "redis://127.0.0.1:#{server.addr[1]}?command_timeout=30&connect_timeout=30"
    %w[INT TERM].each do |name|
      running = start_plock("status", "k", env: { "PLOCK_URL" => url })
      discard(server.accept, :close)
      running.signal(name)
      expect(running.finish.termsig).to eq Signal.list[name]
      expect(running.said).to eq ["", ""]
    end
  end

  it "exits with 71 if it cannot write its output", if: File.exist?("/dev/full") do
    running = start_plock("help", out: "/dev/full")
    expect(running.finish.exitstatus).to eq 71
    expect(running.said.last).to match(
      /\Aplock: the system refuses what the command needs: No space left on device/
    )
  end
end
