# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/command_line"

RSpec.describe "plock status", needs: "redis-server" do
  include Support::CommandLine

  let(:key) { lock_name }
  let(:store) { open_store }

  it "exits with 0 if the key is free" do
    output, errors, status = plock("status", key)
    expect([output, errors, status.exitstatus]).to eq ["#{key.inspect}: free\n", "", 0]
  end

  it "exits with 1 if the key is held, and names the holder and the waiters" do
    store.acquire(key, ttl: 30, label: "import") do |lease|
      waiting = background { store.try_acquire(key, wait: 30, label: "next") }
      eventually { store.status(key).waiters.any? }
      output, errors, status = plock("status", key)
      expect([errors, status.exitstatus]).to eq ["", 1]
      name = Regexp.escape(key.inspect)
      expect(output.lines).to match [
        /\A#{name}: held since .*, pid #{Process.pid}, .*"import", 1 waiting, /,
        /\A  waits: host .*, pid #{Process.pid}, .*label "next", since [-\d]+ [:.\d]+ UTC$/
      ]
      expect(output.lines.first).to match(/ waiting, \d+\.\d s left, fence #{lease.fence}\n\z/)
      waiting.kill
    end
  end

  it "reports the status in JSON" do
    store.acquire(key, ttl: 30, label: "Überlauf") do |lease|
      waiting = background { store.try_acquire(key, wait: 30) }
      eventually { store.status(key).waiters.any? }
      told = JSON.parse(plock("status", "--json", key).first)
      me = {
        "host" => Socket.gethostname, "pid" => Process.pid, "thread" => Integer,
        "label" => "Überlauf"
      }
      expect(told).to match(
        "key" => key, "store_key" => lease.store_key, "kind" => "lock", "node" => nil,
        "held" => true,
        "owner" => a_hash_including(me),
        "holders" => [a_hash_including(me.merge("fence" => lease.fence))], "fence" => lease.fence,
        "since" => /\A\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z\z/, "remaining" => be_between(20, 30),
        "waiters" => [a_hash_including("pid" => Process.pid, "label" => nil, "since" => String)]
      )
      waiting.kill
    end
    free, _, status = plock("status", "--json", key)
    expect(JSON.parse(free)).to include(
      "key" => key, "held" => false, "owner" => nil, "fence" => nil, "waiters" => []
    )
    expect(status.exitstatus).to eq 0
  end

  it "knows the other kinds of locks, and all of their holders" do
    semaphore = store.semaphore(key, permits: 2)
    leases =
      %w[import export].map { |label| discard(semaphore.acquire(ttl: 30, label: label), :release) }
    output, _, status = plock("status", "--kind", "semaphore", key)
    expect(status.exitstatus).to eq 1
    expect(output.lines).to match [
      /"import", and by 1 more, 0 waiting, /,
      /\A  holds: host .*label "export", fence #{leases.last.fence}\n\z/
    ]
    told = JSON.parse(plock("status", "--kind", "semaphore", "--json", key).first)
    expect(told).to include("kind" => "semaphore", "key" => key)
    expect(told["holders"].map { |holder| holder["label"] }).to eq %w[import export]
    expect(plock("status", key).last.exitstatus).to eq 0 # a plain lock of this name is free
    store.read_write_lock(key).read(ttl: 30) do
      expect(
        JSON.parse(plock("status", "--kind", "read-write", "--json", key).first)["holders"]
      ).to match [a_hash_including("mode" => "read")]
    end
    expect(plock("status", "--kind", "semafore", key)[1]).to include "did you mean semaphore?"
  end

  it "accepts a store key, too, as list shows it" do
    store.acquire(key, ttl: 30) do |lease|
      output, _, status = plock("status", lease.store_key)
      expect([output[0...lease.store_key.length], status.exitstatus]).to eq [lease.store_key, 1]
    end
  end

  it "shows no sign that reorders what stands beside it" do
    store.acquire(key, ttl: 30, label: "red\u202Eder") do
      %w[status list].each { |command| expect(plock(command, key).first).not_to include("\u202E") }
      expect(plock("status", key).first).to include("red?der")
    end
  end

  it "does not let a label or a host control the terminal" do
    lock = store.status(key).store_key
    shared_redis.call("SET", lock, "token", "PX", 30_000)
    shared_redis.call(
      "SET", "plock:1:{#{lock}}:fence",
      "1700000000000001 1700000000:000001 ho\e[2Jst 1 2 - a%1Bb%FF token", "PX", 30_000
    )
    output, _, status = plock("status", key)
    expect(status.exitstatus).to eq 1
    expect(output).to include("ho?[2Jst")
    expect(output).not_to include("\e")
    expect(JSON.parse(plock("status", "--json", key).first)["owner"]).to include(
      "label" => "a\eb\uFFFD"
    )
    expect(plock("list", lock).first).not_to include("\e")
  end
end
