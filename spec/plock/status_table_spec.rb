# frozen_string_literal: true

require "spec_helper"
require "pp"
require "plock/status/table"

RSpec.describe Plock::Status::Table do
  let(:store) { Plock::Store.open("memory:table") }

  def lines_of(status) = status.pretty_inspect.lines(chomp: true)


  it "says of a free key that it is free" do
    expect(store.status("k").pretty_inspect).to eq("\"k\": free\n")
  end

  it "has a row for the holder and each that waits, under the names of the columns" do
    lease = store.acquire("import:42", label: "night\nly", ttl: 30)
    waiter = background { store.acquire("import:42", wait: 30) { nil } }
    eventually(5) { store.status("import:42").waiters.any? }
    status = store.status("import:42")
    lines = lines_of(status)
    expect(lines[0]).to eq("\"import:42\": held")
    expect(lines[1].split).to eq(%w[host pid thread label since fence left])
    expect(lines[2].split(%r{  +})).to match(
      [
        "holder", status.host, status.pid.to_s, status.thread.to_s, "night\\nly",
        status.since.strftime("%F %T.%3N"), lease.fence.to_s, /\A(30.0|29.\d) s\z/
      ]
    )
    expect(lines[3]).to match(/\Awaits 1  .*  -  +-\z/)
    lease.release
    waiter.join
  end

  it "numbers several holders, and shows their modes" do
    permits = store.semaphore("api", permits: 2)
    leases = Array.new(2) { permits.acquire }
    lines = lines_of(permits.status)
    expect([lines[0], lines[2], lines[3]]).to match(
      ["\"api\" (semaphore): held by 2", /\Aholder 1  /, /\Aholder 2  /]
    )
    leases.each(&:release)

    store.read_write_lock("page").write do
      lines = lines_of(store.read_write_lock("page").status)
      expect(lines[0]).to eq("\"page\" (read-write): held")
      expect(lines[1].split).to eq(%w[host pid thread label mode since fence left])
      expect(lines[2].split(/  +/)[5]).to eq("write")
    end
  end

  it "is indented within other text" do
    lease = store.acquire("k")
    expect([store.status("k")].pretty_inspect.lines.drop(1)).to all(start_with(" "))
    lease.release
  end
end
