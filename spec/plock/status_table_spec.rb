# frozen_string_literal: true

require "spec_helper"
require "pp"
require "plock/status/table"

RSpec.describe Plock::Status::Table do
  let(:store) { Plock::Testing::MemoryStore.new("table") }

  it "says of a free key that it is free" do
    expect(store.status("k").pretty_inspect).to eq("\"k\": free\n")
  end

  it "has a row for the holder and each that waits, under the names of the columns" do
    lease = store.acquire("import:42", label: "night\nly", ttl: 30)
    waiter = background { store.acquire("import:42", wait: 30) { nil } }
    eventually(5) { store.status("import:42").waiters.any? }
    status = store.status("import:42")
    lines = status.pretty_inspect.lines(chomp: true)
    expect(lines[0]).to match(/\A"import:42": held, (30.0|29.\d) s left\z/)
    expect(lines[1].split).to eq(%w[host pid thread label since fence])
    expect(lines[2].split(/  +/)).to eq(["holder", status.host, status.pid.to_s, status.thread.to_s, "night\\nly",
                                         status.since.strftime("%F %T.%3N"), lease.fence.to_s])
    expect(lines[3]).to match(/\Awaits 1  .*  -\z/)
    columns = lines.drop(1).map { |line| line.index(/\S/, 8) }
    expect(columns.uniq.size).to be(1)
    lease.release
    waiter.join
  end

  it "is indented where it stands in something else" do
    lease = store.acquire("k")
    expect([store.status("k")].pretty_inspect.lines.drop(1)).to all(start_with(" "))
    lease.release
  end
end
