# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/acquire_request"

# Tests moments that the store contract (support/store_contract.rb) cannot produce.
RSpec.describe Plock::Store::AcquireRequest do
  let(:lease) do
    Struct.new(:ttl, :token, :fence) {
      def pending? = false
    }.new
  end
  let(:place) { described_class::Place.new }

  def request(**replies)
    described_class.new(
      double(reach: nil, take_back_later: nil, attempt_timeout: 1.0, **replies), lease, 30.0
    )
  end

  # Yields values of wait:, so that the wait ends at each possible step. Each look at the clock
  # takes 10 ms, and pauses take no time.
  def each_end_of_the_wait(request, place)
    [request, place].each do |one|
      allow(one).to receive(:sleep) { |seconds| expect(seconds).not_to be_negative }
    end
    looks = 0
    replace(Plock::Clock, :now, only: Thread.current) { 0.01 * (looks += 1) }
    (1..30).each do |steps|
      looks = 0
      yield (0.01 * steps) - 0.005
    end
  end

  it "ends in time wherever its wait is over while the store fails" do
    failing = request(line_up: place)
    store = failing.instance_variable_get(:@store)
    allow(store).to receive(:ask).and_raise(
      Plock::UnavailableError.new("no answer", code: :timed_out)
    )
    each_end_of_the_wait(failing, place) do |wait|
      expect { failing.run(wait) }.to raise_error(Plock::UnavailableError)
    end
  end

  it "ends in time wherever its wait is over while another holds the key" do
    held = described_class::Answer.new(nil, nil, 20.0, true)
    refused = request(line_up: place, ask: held)
    each_end_of_the_wait(refused, place) { |wait| expect(refused.run(wait)).to be false }
  end

  it "waits for its undo no longer than the call may last" do
    held = described_class::Answer.new(nil, nil, 20.0, true)
    refused = request(line_up: place, ask: held, attempt_timeout: 0.01)
    ends = []
    allow(refused.instance_variable_get(:@store)).to receive(:take_back) do |_lease, within, **|
      ends << (Plock::Clock.now + within)
    end
    each_end_of_the_wait(refused, place) do |wait|
      refused.run(wait)
      refused.leave
      expect(ends).to all(be <= wait + 0.03 + described_class::GRACE_S) # two looks at the clock
      ends.clear
    end
    expect(refused.instance_variable_get(:@store)).to have_received(:take_back).at_least(:once)
  end
end
