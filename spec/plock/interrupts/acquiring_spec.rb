# frozen_string_literal: true

require "spec_helper"
require "support/ways_to_wait"

RSpec.describe "Interrupts around a hold's block" do
  include_context "with a gate"

  describe "around the reply to acquire" do
    def hold_in_background(&wrapper)
      wrapper ||= :call.to_proc
      store
      background do
        wrapper.call(-> { store.hold(key, Support::Failures::TTL_MS, 30, ->(*) {}) { nil } })
      end
    end

    # Expects that no lock remains, whatever the server has done with the request.
    def expect_nothing_left
      gate.clear
      expect_no_orphan(key)
      expect_service(store)
    end

    {
      "before the request reaches the server" => [
        ->(gate) { gate.hold(:request, connections: 1) }, false
      ],
      "after the server grants and before its reply arrives" => [
        ->(gate) { gate.hold(:reply, connections: 1) }, true
      ],
      "in the middle of the reply" => [
        ->(gate) { gate.dribble(:reply, 0.2, connections: 1) }, true
      ]
    }.each do |moment, (trouble, granted)|
      it "Thread#kill #{moment} leaves no lock" do
        store
        trouble.call(gate)
        thread = hold_in_background
        gate.await(:request, key)
        eventually { held?(key) } if granted
        thread.kill.join
        expect(thread.value).to be_nil
        expect_nothing_left
      end

      it "Timeout #{moment} leaves no lock" do
        store
        trouble.call(gate)
        thread = hold_in_background { |hold| Timeout.timeout(0.1, rescue_me) { hold.call } }
        expect { thread.value }.to raise_error(rescue_me)
        gate.await(:request, key)
        expect_nothing_left
      end
    end

    context "with a request that reaches the server after the caller has given up" do
      let(:server) { redis_server }
      let(:gate) { proxy(server) }

      it "leaves no lock, even if the release on another connection comes first" do
        store
        gate.hold(:request, connections: 1)
        thread = hold_in_background
        gate.await(:request, key)
        thread.kill.join
        gate.await(:request, key, times: 2) # the release
        gate.clear
        gate.await_open(1) # the first connection has sent all its requests
        eventually { server.connections == 1 }
        expect(held?(key, server)).to be(false)
      end
    end

    it "at any moment: many kills leave no lock", :slow do
      200.times do |n|
        thread = hold_in_background
        (n % 40).times { Thread.pass }
        thread.kill.join
      end
      expect_no_orphan(key)
      expect_service(store)
    end

    it "by Timeout at any moment: either the value or the error, and no lock" do
      store
      outcomes = Array.new(100) do |n|
        Timeout.timeout(n * 0.00001 + 0.00001) do
          store.hold(key, Support::Failures::TTL_MS, 30, nil) { :value }
        end
      rescue Timeout::Error
        :late
      end
      expect(outcomes - %i[value late]).to be_empty
      expect_no_orphan(key)
    end
  end

  describe "in the block" do
    it "Thread#kill releases" do
      in_block.kill.join
      expect(held?(key)).to be(false)
    end

    it "Thread#raise releases, and the exception goes on" do
      thread = in_block
      thread.raise(rescue_me)
      expect { thread.join }.to raise_error(rescue_me)
      expect(held?(key)).to be(false)
    end

    it "Timeout releases" do
      expect do
        Timeout.timeout(0.05) { store.hold(key, Support::Failures::TTL_MS, 1.0, nil) { sleep } }
      end.to raise_error(Timeout::Error)
      expect(held?(key)).to be(false)
    end

    it "break, next, throw, return and exceptions release" do
      leave = ->(how) do
        catch(:out) do
          store.hold(key, Support::Failures::TTL_MS, 1.0, nil) do
            case how
            when :throw then throw :out, :throw
            when :break then break :break
            when :next then next :next
            when :raise then raise rescue_me
            end
          end
        end
      rescue rescue_me
        :raise
      end
      ways = %i[throw break next raise]
      expect(ways.map { |how| [leave.call(how), held?(key)] }).to eq(
        ways.map { |how| [how, false] }
      )
      def leave_by_return(store, key) = store.hold(key, 30_000, 1.0, nil) { return :return }
      expect([leave_by_return(store, key), held?(key)]).to eq([:return, false])
    end
  end
end
