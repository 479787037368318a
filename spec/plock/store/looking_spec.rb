# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/looking"

# Time passes only in `pass`, which runs each call when it is due, as the scheduler would.
RSpec.describe Plock::Store::Looking do
  let(:undone) { [] }
  let(:lease) { Plock::Store::LeaseState.new(nil, "key", "token").tap { |one| one.ttl = 60.0 } }
  let(:store) do
    Class.new {
      include Plock::Store::Looking

      def initialize(scheduler, &answers)
        @scheduler = scheduler
        @answers = answers
      end

      def attempt_timeout = 0.5

      private

      def undo(*) = @answers.call
    }.new(self) { answer }
  end

  before do
    @now = 0.0
    @calls = []
    replace(Plock::Clock, :now, only: Thread.current) { @now }
  end

  def call_later(delay = 0.0, &work) = @calls << [@now + delay, work]

  def answer
    undone << @now
    !@away
  end

  def pass
    while (call = @calls.min_by(&:first))
      @calls.delete(call)
      @now = call.first
      yield if block_given?
      again_at = call.last.call
      @calls << [again_at, call.last] if again_at
    end
  end

  it "takes back a second time what a request of before may have left" do
    store.take_back(lease)
    pass
    expect(undone).to eq([0.0, 1.0])
  end

  # When a stopped server continues, it may carry out the undo before an earlier acquire. And when a
  # network fails, the operating system keeps resending a request, and doubles the pause each time.
  # So the request may reach the server long after the outage, although its connection is closed.
  it "takes back twice soon after an outage, and for twice as long as that lasted" do
    @away = true
    store.take_back(lease)
    pass { @away = false if @now > 3.5 }
    expect(undone).to eq([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 11.0])
  end

  # The server may be stopped during the first undo, and carry out the second one before the
  # acquire.
  it "takes back again if only the first undo was not answered" do
    @away = true
    store.take_back(lease)
    @away = false
    pass
    expect(undone).to eq([0.0, 1.0, 2.0, 3.0, 4.0])
  end

  it "ends with the lease" do
    @away = true
    lease.ttl = 6.0
    store.take_back(lease)
    pass { @away = false if @now > 3.5 }
    expect(undone).to eq([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
  end
end
