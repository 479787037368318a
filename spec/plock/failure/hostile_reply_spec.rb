# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "A hostile reply" do
  include Support::Failures

  let(:gate) { proxy }
  let(:store) { warm(open_store(gate.url)) }

  # The peaks of this process's reserved and resident memory, in KiB.
  def peaks
    File.read("/proc/self/status").scan(/^(?:VmPeak|VmHWM):\s+(\d+)/).flatten.map(&:to_i)
  end

  # Measures in a process of its own, because the peaks never fall again.
  def growth
    in_child do
      before = peaks
      yield
      peaks.zip(before).map { |after, first| (after - first) / 1024 }
    end
  end

  {
    garbage: :protocol, huge_array: :protocol, huge_bulk: :protocol, endless_line: :protocol,
    deep: :protocol, wide: :protocol, negative: :protocol
  }.each do |script, code|
    context "that is #{script.to_s.tr("_", " ")}" do
      subject(:store) { open_store(hostile_server(script).url) }

      it_behaves_like "a store that fails with", "Plock::ProtocolError", code

      it "costs no memory" do
        skip "/proc not mounted" unless Support::Inventory.available?
        store
        reserved, touched = growth { attempt_failure(store) }
        # The memory arena of a thread reserves 64 MiB of addresses, but takes up hardly any memory.
        expect(reserved).to be < 512
        expect(touched).to be < 16
      end
    end
  end

  # Replaces the reply to one acquire of this key, and expects the call to fail.
  def expect_refusal(reply, key = unique_key)
    store
    gate.replace(reply, after: key, connections: 1)
    expect(attempt_failure(store, key)).to be_a(Plock::ProtocolError)
    gate.clear
  end

  it "in the midst of good ones costs its connection, and the next call works" do
    [
      "nonsense\r\n", "*2147483647\r\n", "$1073741824\r\n", "*-9\r\n", ":12x\r\n", "*1\r\n" * 2_000
    ].each do |reply|
      expect_refusal(reply)
      expect_service(store)
    end
  end

  it "of a type that no script answers is refused, not believed" do
    ["+OK\r\n", "$-1\r\n", "*0\r\n", "*-1\r\n", "*2\r\n+a\r\n+b\r\n", "$0\r\n\r\n"].each do |reply|
      expect_refusal(reply)
    end
    expect_service(store)
  end

  it "releases the lock that the server may have granted behind it" do
    key = unique_key
    expect_refusal("nonsense\r\n", key)
    gate.await(:request, key, times: 2) # the acquire, and then a release
    expect_no_orphan(key)
  end
end
