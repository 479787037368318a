# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "A server that cannot be reached" do
  include Support::Failures

  subject(:store) { open_store(address) }

  let(:gate) { proxy }

  context "when no Unix socket is there" do
    let(:address) { "unix://#{Support::Supervisor.folder}/absent.sock" }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :connect
  end

  context "when the port refuses" do
    let(:address) { gate.url }

    before { gate.refuse }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :connect

    it "names the address and serves once the port accepts" do
      expect(attempt_failure(store).message).to include("127.0.0.1", gate.port.to_s)
      gate.forward
      expect_service(store)
    end
  end

  context "when it accepts and is silent" do
    let(:address) { gate.url }

    before { gate.silent }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :silent

    it "serves once it speaks again" do
      attempt_failure(store)
      gate.forward
      expect_service(store)
    end
  end

  context "when it answers byte by byte, too slowly" do
    let(:address) { hostile_server(:slow).url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :silent
  end

  context "when it answers byte by byte, just fast enough" do
    let(:address) { gate.url }

    it "is served" do
      warm(store)
      gate.dribble(:reply, 0.001)
      expect_service(store)
    end
  end

  context "when it closes each connection at once" do
    let(:address) { hostile_server(:closes).url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :disconnected
  end

  context "when it closes on each request" do
    let(:address) { hostile_server(:closes_on_request).url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :disconnected
  end

  context "when it resets the connection on each request" do
    let(:address) { hostile_server(:resets_on_request).url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :disconnected
  end

  context "when it closes in mid-reply" do
    let(:address) { hostile_server(:closes_in_reply).url }

    it_behaves_like "a store that fails with", "Plock::UnavailableError", :disconnected
  end

  it "keeps a hold trying until its wait is over, and admits it when the server comes back" do
    gate.refuse
    store = open_store(gate.url)
    failures = Queue.new
    holder =
      background do
        store.hold(unique_key, 3_000, 10, ->(_, error) { failures << error.code }) { :entered }
      end
    expect(Array.new(2) { failures.pop }).to eq(%i[connect connect])
    gate.forward
    expect(holder.value).to eq(:entered)
  end

  it "uses the configured budget instead of the default", :timing do
    gate.silent
    store = open_store(gate.url("attempt_timeout=0.05"))
    within_budget(0.05) { attempt_failure(store) }
    store = open_store(gate.url, attempt_timeout: 0.35)
    expect(elapsed { attempt_failure(store) }).to be >= 0.34
  end

  it "never shows the password" do
    gate.refuse
    store = open_store("redis://:hush%2Dhush@127.0.0.1:#{gate.port}")
    shown = [
      store.inspect, store.url, attempt_failure(store).message, hold_failure(store).full_message
    ].join
    expect(shown).not_to match(/hush/)
  end
end
