# frozen_string_literal: true

require "spec_helper"
require "plock/jobs/guard"
require "plock/jobs/guard/collision"
require "plock/jobs/guard/work"

RSpec.describe Plock::Guard::Work do
  def label(name, id) = described_class.new(nil, Plock::Guard::JobState.new, name, id, nil).label

  it "labels a job with its class and id" do
    expect(label("Import", "0123456789abcdef01234567")).to eq("Import 0123456789abcdef01234567")
  end

  it "keeps within what a label may have, and the id whole" do
    long = label("Très::#{"Long" * 40}::Import", "0123456789abcdef01234567")
    expect(long).to end_with("Long::Import 0123456789abcdef01234567").and be_valid_encoding
    expect(long.bytesize).to be <= 100
    expect(label("é" * 60, "x" * 40)).to be_valid_encoding
  end

  it "tells long ids apart" do
    one, two = label("Import", "x" * 200), label("Import", "#{"x" * 199}y")
    expect([one.bytesize, two.bytesize]).to all(be <= 100)
    expect(one).not_to eq(two)
  end
end

RSpec.describe Plock::Guard::Collision, ".delay" do
  it "is a second at first, grows, and is a minute at most" do
    expect(Array.new(50) { described_class.delay(0) }).to all(be_between(1.0, 1.25))
    expect(
      (1..5).map { |times| described_class.delay(times) / described_class.delay(times - 1) }
    ).to all(be_between(1.5, 2.6))
    expect(Array.new(50) { described_class.delay(1_000) }).to all(be_between(48, 60))
  end

  it "differs from job to job" do
    expect(Array.new(10) { described_class.delay(20) }.uniq.size).to be > 1
  end
end

RSpec.describe Plock::Guard::JobState do
  it "is read as it was written" do
    ticket = described_class.new.tap do |it|
      it.lease = "plock1:x"
      it.keep_until = 12.5
      it.conflicts = 3
      it.put_off = true
    end
    expect(described_class.read(ticket.to_h).to_h).to eq(
      "lease" => "plock1:x", "keep_until" => 12.5, "conflicts" => 3, "put_off" => true
    )
  end

  it "is empty where there is nothing, or nonsense" do
    [
      nil, 5, "x", [], {},
      { "lease" => 5, "conflicts" => "many", "keep_until" => "soon", "put_off" => 1 }
    ].each { |facts| expect(described_class.read(facts)).to be_empty }
  end

  it "does not show its lease" do
    expect(described_class.read("lease" => "plock1:secret").inspect).not_to include("secret")
  end

  it "keeps a key no longer than was asked for, wherever clocks have jumped to" do
    ticket = described_class.read("keep_until" => Time.now.to_f + 1_000_000)
    expect(ticket.left_to_keep(60.0)).to eq(60.0)
    expect(described_class.read("keep_until" => 5.0).left_to_keep(60.0)).to eq(0.0)
  end
end
