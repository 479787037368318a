# frozen_string_literal: true

require_relative "../parse_context"

RSpec.describe Parse::Lock::Degraded do
  include_context "with Parse"

  def announce(mode, error = nil) =
    described_class.announce(mode, "prefix:0123456789abcdef", "Me", error)

  it "raises the error that it is given" do
    expect { announce(:raise, KeyError) }.to raise_error(
      KeyError, "Me: cross-process lock store unavailable; current store is process-local"
    )
  end

  it "raises Parse::Error where it is given none" do
    expect { announce(:raise) }.to raise_error(Parse::Error)
  end

  it "says nothing with :proceed" do
    expect(warnings { announce(:proceed) }).to be_empty
  end

  it "says the end of the key with :warn, and with any mode that it does not know" do
    text =
      "[Me] Lock store is process-local; cross-process locking disabled. key_digest=456789abcdef\n"
    expect(warnings { announce(:warn) && announce(:other) || announce(:other) }).to eq([text, text])
  end

  it "prints a key that is no String as it is" do
    expect(warnings { described_class.announce(:warn, :key, "Me", nil) }).to contain_exactly(
      /key_digest=:key$/
    )
  end

  it "says it once in sixty seconds with :warn_throttled" do
    clock = 1_000.0
    allow(Process).to receive(:clock_gettime).and_call_original
    allow(Process).to receive(:clock_gettime).with(Process::CLOCK_MONOTONIC) { clock }
    said_at = [0, 1, 59.9, 60.1, 100, 121].select do |second|
      clock = 1_000.0 + second
      warnings { announce(:warn_throttled) }.any?
    end
    expect(said_at).to eq([0, 60.1, 121])
  end

  it "says it again after a reset" do
    expect(warnings { announce(:warn_throttled) }.size).to be(1)
    described_class.reset
    expect(warnings { announce(:warn_throttled) }.size).to be(1)
  end

  it "keeps a mutex that is held through a reset" do
    described_class::MUTEXES.hold("key", 0, Object.new) do
      described_class.reset
      expect(described_class::MUTEXES.hold("key", 0, Object.new) { |held| held }).to be(false)
    end
  end
end
