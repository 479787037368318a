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

  it "goes to the next waiting call if the one that it called is interrupted" do
    lease = described_class.new(store, "k", "t").given(1, Plock::Clock.now, 60)
    waiters = []
    extension = background do
      lease.extend(30)
      waiters.first.raise(IOError) # it has not run since the lease was free
    end
    store.asked.pop
    2.times do
      waiters << background { lease.extend(30) }
      eventually { waiters.last.stop? }
    end
    waiters.first.report_on_exception = false
    3.times { store.answers << true }
    extension.join(5)
    expect { waiters.first.join(5) }.to raise_error(IOError)
    expect(waiters.last.join(5)&.value).to be(true)
  end
end
