# frozen_string_literal: true

require "spec_helper"
require "support/failures"
require "support/command_line"

RSpec.describe "A server that cannot keep locks" do
  include Support::Failures
  include Support::CommandLine

  # A cluster of one node. It has every slot, so it serves all keys.
  def cluster
    redis_server(:cluster).tap do |server|
      server.call("CLUSTER", "ADDSLOTS", *0..16_383)
      eventually(30) { server.call("CLUSTER", "INFO").include?("cluster_state:ok") }
    end
  end

  {
    "a Redis Cluster of one node" => [:cluster, :cluster, /Redis Cluster.*redis\+cluster:/],
    "a Sentinel" => [:sentinel, :sentinel, /Sentinel.*redis\+sentinel:/]
  }.each do |name, (kind, code, words)|
    describe name do
      let(:server) { kind == :cluster ? cluster : redis_server(kind) }
      let(:store) { open_store(server.url) }

      def expect_refusal(code, words)
        expect { yield }.to raise_error(Plock::UnsupportedError, words) { |error|
          expect(error.code).to eq(code)
        }
      end

      it "is refused by name at the first connection, whatever is asked for" do
        expect_refusal(code, words) { store.acquire(lock_name, wait: 10) { raise "entered" } }
        expect_refusal(code, words) { store.try_acquire(lock_name) { raise "entered" } }
        expect_refusal(code, words) { store.acquire_all([lock_name], wait: 0) { raise "entered" } }
        expect_refusal(code, words) { store.status(lock_name) }
        expect_refusal(code, words) { store.lock_acquire(unique_key, "me", 3) }
      end

      it "is refused with a database or a password in the URL, too" do
        expect_refusal(code, words) { open_store(server.url(db: 1)).status(lock_name) }
        if kind == :sentinel
          expect_refusal(code, words) do
            open_store(server.url(user: "x", password: "y")).status(lock_name)
          end
        end
      end

      it "is refused by the doctor" do
        output, errors, status = plock("doctor", "--store", server.url)
        expect(output + errors).to match(words)
        expect(status.exitstatus).to eq(69)
      end
    end
  end

  it "asks in the greeting: a connection takes no additional round trip" do
    gate = proxy
    gate.hold(:reply)
    store = open_store(gate.url, connect_timeout: 20, command_timeout: 20, attempt_timeout: 20)
    call = background { store.status(lock_name) }
    gate.await(:request, /HELLO.*SETNAME/m) # both commands are sent before any answer arrives
    gate.clear
    expect(call.value).not_to be_held
  end
end
