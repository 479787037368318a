# frozen_string_literal: true

require "spec_helper"

# The contract (support/store_contract/several_keys.rb) tests the behaviour that all stores share.
RSpec.describe "Several keys" do
  let(:url) { shared_redis.unix_url }
  let(:store) { open_store(url) }
  let(:name) { "several:#{SecureRandom.hex(8)}" }
  let(:keys) do
    Array.new(3) { |number| "#{name}:#{number}" }.sort_by { |key| store.status(key).store_key }
  end

  # How many scripts the server runs during the block.
  def scripts(server)
    calls = -> { server.call("INFO", "commandstats")[/^cmdstat_evalsha:calls=(\d+)/, 1].to_i }
    before = calls.call
    yield
    calls.call - before
  end

  it "take one round trip each way if they are free, even for 64" do
    server = redis_server
    own = open_store(server.url)
    many = Array.new(64, &:to_s)
    [keys, many].each { |all| own.acquire_all(all) { nil } } # loads the scripts
    expect([keys, many].map { |all| scripts(server) { own.acquire_all(all) { nil } } }).to eq(
      [2, 2]
    )
  end

  it "do not deadlock processes that name them in different orders", :many_children do
    [url, keys]
    processes = Array.new(4) do |number|
      child do
        own = Plock::Store.open(url)
        Array
          .new(15) do
            own.acquire_all(
              number.odd? ? keys.rotate(number).reverse : keys.rotate(number), ttl: 30, wait: 30,
              &:size
            )
          end
          .uniq
      end
    end
    expect(processes.map(&:result)).to eq([[3]] * 4)
    expect(keys.select { |key| store.status(key).held? }).to be_empty
  end

  it "come free when the process that has some of them is killed while it waits for the next" do
    [url, keys]
    lease = store.acquire(keys[2], ttl: 60)
    waiter = child { Plock::Store.open(url).acquire_all(keys, ttl: 1, wait: 30) }
    eventually(5) { store.status(keys[2]).waiters.size == 1 }
    waiter.signal(:KILL)
    waiter.wait
    expect(store.acquire_all(keys.first(2), ttl: 30, wait: 10) { :entered }).to be(:entered)
    lease.release
    expect(store.acquire(keys[2], wait: 5) { :entered }).to be(:entered)
  end

  it "come free when the process that has them is killed" do
    [url, keys]
    holder = child do |parent|
      Plock::Store.open(url).acquire_all(keys, ttl: 1) { parent.tell(:inside) && parent.hear }
    end
    holder.hear
    holder.signal(:KILL)
    holder.wait
    expect(store.acquire_all(keys, wait: 10) { :entered }).to be(:entered)
  end

  it "leave none behind if the caller is interrupted, at any moment" do
    [store, keys] # made here, because a thread that is killed in RSpec's `let` raises a ThreadError
    200.times do |round|
      thread = background { store.acquire_all(keys, ttl: 30, wait: 30) { nil } }
      (round % 40).times { Thread.pass }
      thread.kill.join
    end
    keys.each do |key|
      eventually(5) { store.status(key).then { |status| !status.held? && status.waiters.empty? } }
    end
  end

  it "leave none behind if Timeout fires, at any moment, and another holder has one" do
    lease = store.acquire(keys[1], ttl: 60)
    60.times do |round|
      Timeout.timeout((round * 0.0001) + 0.0001) do
        store.acquire_all(keys, ttl: 30, wait: 30) { raise "entered" }
      end
    rescue Timeout::Error
      nil
    end
    lease.release
    keys.each do |key|
      eventually(5) { store.status(key).then { |status| !status.held? && status.waiters.empty? } }
    end
  end

  it "are refused in time if the store cannot be reached", :timing do
    absent = open_store("unix:///nowhere/at/all.sock")
    expect { absent.acquire_all(keys, wait: 0) { raise "entered" } }.to raise_error(
      Plock::UnavailableError
    )
    for_as_long_as(0.3) do
      expect { absent.acquire_all(keys, wait: 0.3) { raise "entered" } }.to raise_error(
        Plock::UnavailableError
      )
    end
  end
end
