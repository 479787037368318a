# frozen_string_literal: true

require "spec_helper"
require "support/ways_to_wait"

RSpec.describe "A call that waits" do
  include_context "with a gate"

  let(:turns) { 100 } # each lasts at least a millisecond
  def cpu_time = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

  Support::WAYS_TO_WAIT.each do |name, way|
    it "#{name} lets other threads run, and costs no processor time", :timing do
      thread = waiting(way)
      before = cpu_time
      eventually(30) { (@turn = @turn.to_i + 1) >= turns }
      expect(cpu_time - before).to be < 0.05
      expect(thread.stop? && thread.alive?).to be(true)
    end
  end

  # If a call held one of the engine's locks while it waited, all other calls would also have to
  # wait.
  describe "does not hold up other calls on the same store" do
    def expect_others_are_served(thread)
      others =
        Array.new(4) do
          background { store.hold(unique_key, Support::Failures::TTL_MS, 1.0, nil) { :entered } }
        end
      expect(others.map { |other| other.join(5)&.value }).to eq([:entered] * 4)
      expect(thread).to be_alive
    end

    it "when it waits for a lock that another caller holds" do
      expect_others_are_served(
        waiting(Support::WAYS_TO_WAIT.fetch("for a lock that another caller holds"))
      )
    end

    it "when it waits for a reply" do
      expect_others_are_served(waiting(->(_) do
        gate.hold(:reply, connections: 1)
        -> { gate.await(:reply) }
      end))
    end

    it "when it waits for a connection" do
      thread = waiting(Support::WAYS_TO_WAIT.fetch("for a connection that says nothing"))
      gate.forward # for the other calls
      expect_others_are_served(thread)
    end

    context "with a release that may take its time" do
      let(:release_timeout) { 20 }

      it "when it waits for its release" do
        thread = releasing(:reply, connections: 1)
        expect_others_are_served(thread)
        gate.clear
        expect(thread.value).to eq(:value)
      end
    end
  end
end
