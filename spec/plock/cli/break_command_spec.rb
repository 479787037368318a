# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/command_line"

RSpec.describe "plock break", needs: "redis-server" do
  include Support::CommandLine

  let(:key) { lock_name }
  let(:store) { open_store }

  def hold = discard(store.acquire(key, ttl: 60, label: "import"), :release)

  it "breaks the lock with --yes" do
    lease = hold
    output, errors, status = plock("break", "--yes", key)
    expect([output, errors, status.exitstatus]).to eq ["#{key.inspect}: taken away\n", "", 0]
    expect(store.status(key)).not_to be_held
    expect(lease.release).to be false
  end

  it "makes room on a server that is out of memory" do
    server = redis_server
    lease = open_store(server.url).acquire(key, ttl: 60)
    server.call("CONFIG", "SET", "maxmemory", "1")
    output, errors, = plock("break", "--yes", key, env: { "PLOCK_URL" => server.url })
    expect([output, errors]).to eq ["#{key.inspect}: taken away\n", ""]
    expect(lease.release).to be false
  end

  it "exits with 1 if the key is free" do
    output, errors, status = plock("break", "--yes", key)
    expect([output, errors, status.exitstatus]).to eq ["#{key.inspect}: free\n", "", 1]
  end

  it "reports the outcome in JSON" do
    lease = hold
    expect(JSON.parse(plock("break", "-y", "--json", key).first)).to include(
      "key" => key, "broken" => true, "fence" => lease.fence,
      "owner" => a_hash_including("label" => "import")
    )
    expect(JSON.parse(plock("break", "-y", "--json", key).first)).to include(
      "key" => key, "broken" => false, "owner" => nil
    )
  end

  it "breaks a lock of another kind for all of its holders" do
    semaphore = store.semaphore(key, permits: 2)
    leases = Array.new(2) { discard(semaphore.acquire(ttl: 60), :release) }
    expect(plock("break", "-y", "--kind", "semaphore", key).last.exitstatus).to eq 0
    expect(leases.map(&:release)).to eq [false, false]
    expect(plock("break", "-y", semaphore.status.store_key).last.exitstatus).to eq 1
  end

  it "accepts a store key, too" do
    expect(plock("break", "-y", hold.store_key).last.exitstatus).to eq 0
  end

  it "exits with 64, and does nothing, if it cannot ask because there is no terminal" do
    lease = hold
    output, errors, status = plock("break", key)
    expect([output, status.exitstatus]).to eq ["", 64]
    expect(errors).to include "--yes"
    expect(lease.release).to be true
  end

  it "asks at a terminal, names the lock, and breaks it after yes" do
    lease = hold
    %w[y yes Y].each do |answer|
      asking = type_plock("break", key)
      expect(asking.await("[y/N] ")).to include("label \"import\"")
      asking.type("#{answer}\n")
      expect(asking.finish.exitstatus).to eq 0
      expect(lease.release).to be false
      lease = hold
    end
    lease.release
  end

  it "exits with 1, and does nothing, after any other answer, or none" do
    lease = hold
    ["n\n", "\n", "yesterday\n", "\C-d"].each do |answer|
      asking = type_plock("break", key)
      asking.await("[y/N] ")
      asking.type(answer)
      expect(asking.finish.exitstatus).to eq 1
    end
    expect(lease.release).to be true
  end

  it "does nothing if another holder has the key when the answer comes" do
    lease = hold
    asking = type_plock("break", key)
    asking.await("[y/N] ")
    lease.release
    other = hold
    asking.type("y\n")
    asking.await("nothing was done")
    expect(asking.finish.exitstatus).to eq 1
    expect(other.release).to be true
  end
end
