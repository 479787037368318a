# frozen_string_literal: true

require "spec_helper"

RSpec.describe Plock::Locking::Share do
  it "is written as the engine reads it" do
    shares = [
      described_class::READ, described_class::WRITE, described_class.of(3),
      described_class.of(65_535)
    ]
    expect(shares.map(&:to_str)).to eq(%w[r w s3 s65535])
    expect(shares.map(&:to_str)).to all(match(described_class::FORMAT))
    expect(shares.map(&:name)).to eq([:read, :write, nil, nil])
    expect(["", "s", "s0", "x", "r1", "s123456"]).to all(
      satisfy { |text| !described_class::FORMAT.match?(text) }
    )
  end
end
