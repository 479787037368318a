# frozen_string_literal: true

require "spec_helper"
require "plock/cli/child"
require "support/command_line"

RSpec.describe Plock::CLI::Child do
  include Support::CommandLine

  def child_process(*command, **environment)
    described_class
      .new(command, environment.transform_keys(&:to_s))
      .tap { |made| discard(-> { bury(made) }, :call) }
  end

  def bury(made)
    return if made.status

    made.kill("KILL")
    made.reap
  end

  let(:file) { File.join(Support::Supervisor.folder, "child-#{SecureRandom.hex(6)}") }

  it "begins when it is told to, as the leader of a group of its own" do
    made = child_process("sh", "-c", "echo $PLACE >$FILE", PLACE: "there", FILE: file)
    expect(Process.getpgid(made.pid)).to eq made.pid
    expect(made.stopped || made.ended? || File.exist?(file)).to be false
    made.start
    expect(made.reap).to be_success
    expect(File.read(file)).to eq "there\n"
  end

  it "ends, and runs nothing, if its parent ends before" do
    path = file
    made = in_child { described_class.new(["sh", "-c", "echo ran >#{path}"], {}).pid }
    expect_gone(made)
    expect(File.exist?(path)).to be false
  end

  %w[HUP INT QUIT TERM USR1 USR2 ALRM].each do |signal|
    it "is ended by #{signal} that comes before it begins, as the command would be" do
      made = child_process("sleep", "60")
      made.kill(signal)
      made.start
      expect(made.reap.termsig).to eq Signal.list[signal]
    end
  end

  it "ignores a signal that comes before it begins if the command would ignore it" do
    path = file
    status =
      in_child do
        trap("HUP", "IGNORE")
        made = described_class.new(["sh", "-c", "kill -HUP $$; echo ran >#{path}"], {})
        made.kill("HUP")
        made.start
        made.reap.exitstatus
      end
    expect([status, File.read(file)]).to eq [0, "ran\n"]
  end

  it "begins with the signals that this process does not block" do
    skip "the system does not tell" unless File.readable?("/proc/self/status")
    mask = File.read("/proc/self/status")[/^SigBlk:.*/]
    made = child_process("grep", "-qx", mask, "/proc/self/status")
    made.start
    expect(made.reap).to be_success
  end

  it "is not reaped after its end until the caller asks for it" do
    made = child_process("true")
    expect(made).not_to be_ended
    made.start
    eventually { made.ended? }
    expect(made.ended?).to be true
    expect(File.exist?("/proc/#{made.pid}")).to be true if File.directory?("/proc/self")
    expect(made.reap.exitstatus).to eq 0
    expect(made).not_to be_ended
  end

  # In a container, the first process becomes the parent of orphaned processes, and must reap them.
  it "does not count a dead process of its group that this process has to reap" do
    made = child_process("sleep", "60")
    made.start
    orphan = Process.spawn("true", pgroup: made.pid)
    eventually { Plock::Processes.ended?(orphan) }
    made.kill("KILL")
    made.reap
    expect(made.group?).to be false
    expect { Process.wait(orphan) }.to raise_error(Errno::ECHILD)
  end

  it "reports once the signal that stopped it" do
    made = child_process("sleep", "60")
    made.start
    expect(made.stopped).to be_nil
    made.kill("STOP")
    expect(eventually { made.stopped }).to eq Signal.list["STOP"]
    expect(made.stopped).to be_nil
    made.kill("KILL")
    expect(eventually { made.stopped || made.status }.termsig).to eq 9
    expect(made.group?).to be false
  end
end
