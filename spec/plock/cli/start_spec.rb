# frozen_string_literal: true

require "spec_helper"
require "support/command_line"

# A cron job or a deploy script starts plock again and again, so plock must load little.
RSpec.describe "How plock starts", needs: "redis-server" do
  include Support::CommandLine

  def loaded(*arguments)
    plock = "#{Support::CommandLine::ROOT}/exe/plock"
    program = "at_exit { $stderr.puts $LOADED_FEATURES }; load #{plock.inspect}"
    command = [*Support::CommandLine::PROGRAM[0...-1], "-e", program, "--", *arguments]
    running = discard(Support::CommandLine::Running.new(command, plock_environment({}), {}), :close)
    running.said.last.lines(chomp: true)
  end

  it "loads what a command needs and nothing else" do
    expect(
      loaded("--version").grep(%r{/(optparse|json|openssl|socket)\.|plock/(plock|store|lease)\.})
    ).to be_empty
    needless = %r{/(json|openssl|socket|etc|io/console)\.|cli/(doctor|list)|tls_parameters}
    expect(
      loaded("run", lock_name, "--", "true", "-x").grep(Regexp.union(needless, %r{/optparse\.}))
    ).to be_empty
    expect(loaded("run", "--ttl", "5", lock_name, "--", "true").grep(needless)).to be_empty
    expect(
      loaded("status", lock_name).grep(%r{/(optparse|json|openssl|socket|etc)\.|cli/(job|doctor)})
    ).to be_empty
  end
end
