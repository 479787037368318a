# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/acquire_request"

# Tests moments that the store contract (support/store_contract.rb) cannot produce.
RSpec.describe Plock::Store::AcquireRequest do
  let(:lease) { Struct.new(:ttl, :token).new }
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
end
