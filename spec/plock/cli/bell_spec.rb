# frozen_string_literal: true

require "spec_helper"
require "plock/cli/bell"

RSpec.describe Plock::CLI::Bell do
  let(:bell) { described_class.new }

  it "is heard in the order of the rings, and is silent otherwise" do
    expect(bell.heard(0)).to eq []
    [15, described_class::LOST, 2].each { |number| bell.ring(number) }
    expect(bell.heard(nil)).to eq [15, 0, 2]
    expect(bell.heard(0.001)).to eq []
  end

  it "is rung by another thread while a caller waits" do
    thread = background { bell.heard(20) }
    await_sleep(thread)
    bell.ring(described_class::LOST)
    expect(thread.value).to eq [0]
  end

  it "never holds up a caller that rings it" do
    expect { 100_000.times { bell.ring(1) } }.not_to raise_error
  end

  it "is rung by signals until it is hushed, and leaves ignored signals ignored" do
    heard = in_child do
      outer = []
      trap("USR1") { outer << :outer }
      trap("USR2", "IGNORE")
      bell.listen
      %w[USR1 USR2 TERM].each { |name| Process.kill(name, Process.pid) }
      rung = []
      rung += bell.heard(5) until rung.size == 2
      bell.hush
      Process.kill("USR1", Process.pid)
      sleep 0.001 until outer.any?
      [rung, outer, bell.heard(0)]
    end
    expect(heard).to eq [[Signal.list["USR1"], Signal.list["TERM"]], [:outer], []]
  end
end
