# frozen_string_literal: true

require "spec_helper"

# The contract (support/store_contract/once.rb) tests the behaviour that all stores share.
RSpec.describe Plock::Once do
  let(:url) { shared_redis.unix_url }
  let(:store) { open_store(url) }
  let(:key) { "once:#{SecureRandom.hex(8)}" }

  before { [url, key] } # made before any fork, so that all processes use the same ones

  # Redis counts an expiry from the start of its current millisecond, so a key can expire almost a
  # millisecond too early. plock adds a millisecond to make up for that.
  it "keeps the key for no millisecond less than is left of the window" do
    gate = proxy(shared_redis)
    own = open_store(gate.url)
    own.release_all([own.acquire(key, ttl: 60).hold], 60.0005, nil)
    expect(gate.seen(:request)).to include("\r\n60002\r\n")
  end

  it "begins the window with the block, however late the answer came that let it in" do
    gate = proxy(shared_redis)
    own = open_store(gate.url, attempt_timeout: 5)
    [nil, IOError].each do |error|
      began = lease = nil
      gate.delay(:reply, 0.1)
      once = -> do
        own.once("#{key}:#{error}", within: 60, on_error: :keep) do |given|
          began, lease = Plock::Clock.now, given
          gate.clear
          raise error if error
        end
      end
      error ? expect(&once).to(raise_error(error)) : once.call
      left = shared_redis.call("PTTL", lease.store_key) / 1_000.0
      expect(Plock::Clock.now + left - began).to be >= 60
    end
  end

  it "runs the block in one of many processes", :many_children do
    processes = Array.new(6) do
      child do |parent|
        # six processes keep the machine busy, so the server may answer slowly
        own = Plock::Store.open(url, attempt_timeout: 10)
        parent.tell(:ready)
        parent.hear
        own.once(key, within: 30) { Process.pid }.then { |result| [result.ran?, result.value] }
      end
    end
    processes.each(&:hear)
    processes.each { |process| process.tell(:go) }
    results = processes.map(&:result)
    expect(results.map(&:first).tally).to eq({ true => 1, false => 5 })
    expect(processes.map(&:pid)).to include(results.to_h[true])
  end

  it "lets others run it after a process was killed in the block, when the window is over" do
    killed =
      child do |parent|
        Plock::Store.open(url).once(key, within: 1) { parent.tell(:inside) && parent.hear }
      end
    killed.hear
    killed.signal(:KILL)
    killed.wait
    expect(store.once(key, within: 1) { raise "entered" }).not_to be_ran
    eventually(5) { store.once(key, within: 1) { nil }.ran? }
  end

  it "keeps others out after the process has ended" do
    expect(in_child { Plock::Store.open(url).once(key, within: 30) { nil }.ran? }).to be(true)
    expect(store.once(key, within: 30) { raise "entered" }).not_to be_ran
  end
end
