# frozen_string_literal: true

require "rbconfig"
require "support/supervisor"

# Starts original.rb, and talks to it.
class OriginalProcess
  PROGRAM = File.expand_path("original.rb", __dir__)
  DEADLINE = 20.0

  def initialize(kind, address)
    theirs, @to = IO.pipe
    @from, answers = IO.pipe
    @pid =
      Process.spawn(RbConfig.ruby, "-W0", PROGRAM, kind.to_s, address, in: theirs, out: answers)
    Support::Supervisor.watch(@pid)
    [theirs, answers].each(&:close)
    @to.sync = true
    hear
  end

  def acquire(key, expiry: 60, retries: 1) = ask("acquire", key, expiry, retries)
  def acquired?(key) = ask("acquired?", key) == "true"
  def release(key) = ask("release", key)

  # Sends a command without waiting for the answer.
  def say(*words) = @to.puts(words.join(" "))

  def hear
    raise "the original says nothing" unless @from.wait_readable(DEADLINE)

    @from.gets&.chomp or raise "the original has ended"
  end

  def kill
    return unless @pid

    Process.kill(:KILL, @pid)
    Process.wait(@pid)
    Support::Supervisor.forget(@pid)
    @pid = nil
    [@to, @from].each(&:close)
  end

  private

  def ask(*words)
    say(*words)
    hear
  end
end
