# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/lease_state"

RSpec.describe Plock::Store::LeaseState do
  # A store whose extensions wait for an answer from the example.
  let(:store) do
    Class.new do
      attr_reader :asked, :answers, :later

      def initialize
        @asked = Queue.new
        @answers = Queue.new
        @later = []
      end

      def tend(*) = nil

      def forget(*) = nil

      def prolong(*) = (asked << true) && answers.pop

      def give_back(*) = raise("it is another's turn")

      def give_back_later(_lease, keep) = later << keep
    end.new
  end

  it "is released in the background if the fiber is stopped that waits for its turn", :fibers do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    extension = background { lease.extend(30) }
    store.asked.pop
    Sync { |task| task.async { lease.release(5.0) }.stop }
    expect([lease.ended, store.later]).to eq([:released, [5.0]])
    store.answers << true
    extension.join
    expect(lease.release(0.0)).to be_nil
  end
end
