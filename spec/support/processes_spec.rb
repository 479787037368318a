# frozen_string_literal: true

require "spec_helper"

RSpec.describe Support::Child do
  it "hands back the block's value" do
    expect(in_child { [Process.ppid, :done] }).to eq([Process.pid, :done])
  end

  it "talks both ways" do
    other = child do |parent|
      parent.tell(:ready)
      parent.hear * 2
    end
    expect(other.hear).to eq(:ready)
    other.tell(21)
    expect(other.result).to eq(42)
  end

  it "raises here what was raised there" do
    expect { in_child { raise ArgumentError, "over there" } }.to raise_error(
      described_class::Failed, /over there/
    )
  end

  it "raises it also when the parent tells the child more" do
    other = child { raise ArgumentError, "over there" }
    other.wait
    expect { other.tell(:more) }.to raise_error(described_class::Failed, /over there/)
  end

  it "says so when the child dies without a word" do
    expect { in_child { Process.kill(:KILL, Process.pid) } }.to raise_error(
      described_class::Failed, /gone/
    )
  end

  it "leaves no process and no pipe behind" do
    before = Support::Inventory.descriptors
    other = child { sleep }
    described_class.end_all
    expect { Process.kill(0, other.pid) }.to raise_error(Errno::ESRCH)
    expect(Support::Inventory.descriptors).to match_array(before)
  end

  it "is ended, like all that the suite started, when the suite is killed" do
    suite = child do |parent|
      Support::Supervisor.instance_variable_set(:@pid, nil) # this child acts as a suite of its own
      server = redis_server
      parent.tell([server.pid, Support::Supervisor.folder])
      sleep
    end
    server, folder = suite.hear
    suite.signal(:KILL)
    eventually { !File.exist?(folder) && !alive?(server) }
  end

  def alive?(pid)
    File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] != "Z"
  rescue Errno::ENOENT
    false
  end
end
