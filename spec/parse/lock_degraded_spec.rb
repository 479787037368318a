# frozen_string_literal: true

require_relative "parse_context"

RSpec.describe Parse::Lock, "without a store that other processes see" do
  include_context "with Parse"

  let(:tail) { store_key[-12..] }
  let(:throttled) do
    "[Parse::Lock] Lock store is process-local (Moneta Memory/Null). " \
      "Cross-process locking is NOT in effect. " \
      "Configure a Redis-backed cache to enable distributed locking."
  end

  it "warns at every call, and gives the block a token" do
    token = nil
    heard = warnings { 2.times { acquire { |t| token = t } } }
    expect(heard.map(&:chomp)).to eq(
      ["[Parse::Lock] Lock store is process-local; " \
       "cross-process locking disabled. key_digest=#{tail}"] * 2
    )
    expect(token).to match(uuid)
  end

  it "warns once in a while with :warn_throttled" do
    heard = warnings { 3.times { acquire(on_degraded: :warn_throttled) { :value } } }
    expect(heard.map(&:chomp)).to eq([throttled])
  end

  it "is silent with :proceed" do
    expect(acquire(on_degraded: :proceed) { :value }).to be(:value)
  end

  it "raises with :raise" do
    expect { acquire(on_degraded: :raise) { :never } }.to raise_error(
      Parse::Lock::UnavailableError,
      "Parse::Lock: cross-process lock store unavailable; current store is process-local"
    )
  end

  it "lets a block be entered by one thread at a time" do
    expect(
      most_inside { |visit| 20.times { acquire(wait: 20, on_degraded: :proceed, &visit) } }
    ).to be(1)
  end

  it "waits no longer than it is told to", :timing do
    leave = Queue.new
    await_sleep(background { acquire(on_degraded: :proceed) { leave.pop } })
    for_as_long_as(0.2) do
      expect { acquire(on_degraded: :proceed, wait: 0.2) { :never } }.to raise_error(
        Parse::Lock::TimeoutError,
        "Parse::Lock.acquire: could not acquire #{key.inspect} within 0.2s"
      )
    end
  end

  it "refuses a second hold of the same thread when patience ends" do
    acquire(on_degraded: :proceed) do
      expect { acquire(on_degraded: :proceed, wait: 0) { :never } }.to raise_error(
        Parse::Lock::TimeoutError
      )
    end
    expect(acquire(on_degraded: :proceed, wait: 0) { :free }).to be(:free)
  end
end
