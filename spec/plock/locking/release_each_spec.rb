# frozen_string_literal: true

require "spec_helper"

RSpec.describe Plock::Locking::ReleaseEach do
  let(:tried) { [] }
  let(:failure) { Plock::UnavailableError.new("away", code: :connect) }

  def release(holds, **options, &trouble)
    described_class.call(holds, **options) do |hold|
      tried << hold
      trouble&.call(hold)
      hold == :lost ? false : true
    end
  end

  it "answers for each" do
    expect(release(%i[a lost b])).to eq([true, false, true])
    expect(tried).to eq(%i[a lost b])
  end

  it "tries each, and raises the first failure" do
    failures = { a: failure, c: Plock::UnavailableError.new("still", code: :connect) }
    expect {
      release(%i[a b c d]) { |hold| failures[hold] && raise(failures[hold]) }
    }.to raise_error(Plock::UnavailableError, "away")
    expect(tried).to eq(%i[a b c d])
  end

  it "raises no failure that the store repeats" do
    expect(release(%i[a lost], raises: false) { |hold| raise failure if hold == :a }).to eq(
      [true, false]
    )
  end

  # An interrupt can come from a scheduler that stops the fiber, or from a signal handler that
  # raises.
  it "tries the others if it is interrupted, and drops their failures" do
    expect {
      release(%i[a b c]) { |hold| raise hold == :a ? Interrupt : failure }
    }.to raise_error(Interrupt)
    expect(tried).to eq(%i[a b c])
  end

  it "leaves the others to the store if it is interrupted" do
    left = []
    expect {
      release(%i[a b c], later: ->(hold) { left << hold }) { |hold| raise Interrupt if hold == :b }
    }.to raise_error(Interrupt)
    expect([tried, left]).to eq([%i[a b], %i[c]])
  end
end
