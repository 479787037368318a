# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "A process at its limits" do
  include Support::Failures

  let(:address) { shared_redis.url }

  # The outcome of the block as a text, for a pipe.
  def outcome
    yield
  rescue Plock::Error => e
    [e.class.name, e.code]
  end

  it "without a descriptor: a typed error, and the next call works" do
    expect(in_child do
      store = open_store(address)
      first = without_descriptors { outcome { raise attempt_failure(store) } }
      [first, store.hold(unique_key, 3_000, 1.0, nil) { :entered }]
    end).to eq([["Plock::UnavailableError", :descriptors], :entered])
  end

  it "without a descriptor: a hold ends by its budget, its block not entered", :timing do
    failed = in_child do
      store = open_store(address)
      without_descriptors do
        for_as_long_as(0.3) { outcome { raise hold_failure(store, wait: 0.3) } }
      end
    end
    expect(failed).to eq(["Plock::UnavailableError", :descriptors])
  end

  it "without a descriptor but with a connection: it serves, and says why it cannot queue" do
    key = unique_key
    expect(in_child do
      store = warm(open_store(address))
      without_descriptors do
        entered =
          store.hold(key, 3_000, 1.0, nil) { outcome { raise hold_failure(store, key, wait: 0.1) } }
        [entered, outcome { store.hold(key, 3_000, 1.0, nil) { :entered } }]
      end
    end).to eq([["Plock::UnavailableError", :descriptors], :entered])
    expect(held?(key)).to be(false)
  end

  context "with 50 threads on one store" do
    let(:store) { open_store(address) }

    it "excludes them all from one another" do
      key = unique_key
      inside = entered = overlaps = 0
      threads = Array.new(50) do
        background do
          store.hold(key, Support::Failures::TTL_MS, 30, nil) do
            inside += 1
            overlaps += 1 if inside > 1
            Thread.pass
            entered += 1
            inside -= 1
          end
        end
      end
      threads.each(&:join)
      expect([entered, overlaps, held?(key)]).to eq([50, 0, false])
    end

    it "lets them work on keys of their own, with no more connections than the pool has",
       :no_leaks do
      server = redis_server
      store = open_store(server.url, pool_size: 4)
      threads =
        Array.new(50) do
          background do
            Array.new(20) do
              store.hold(unique_key, Support::Failures::TTL_MS, 30, nil) { :entered }
            end
          end
        end
      expect(threads.flat_map(&:value).tally).to eq({ entered: 1_000 })
      expect(server.connections).to be <= 4
    end

    it "ends each one's wait by its own budget", :timing do
      gate = proxy
      store = warm(open_store(gate.url))
      gate.swallow(:reply)
      within_budget(0.3) do
        Array.new(50) { background { hold_failure(store, wait: 0.3) } }.each(&:join)
      end
    end
  end

  it "does not grow: descriptors, threads and memory are the same after thousands of calls",
     :slow, :timing do
    skip "/proc not mounted" unless Support::Inventory.available?
    measured = in_child do
      store = warm(open_store(address))
      Array.new(6) do
        4_000.times { store.hold(unique_key, 3_000, 1.0, nil) { nil } }
        GC.start
        [
          Support::Inventory.descriptors.size, Support::Inventory.threads,
          File.read("/proc/self/statm").split[1].to_i * 4
        ]
      end
    end
    descriptors, threads, resident = measured.transpose
    expect([descriptors.uniq.size, threads.uniq.size]).to eq([1, 1])
    # A leak grows in every round, but Ruby's own heap grows only in the first rounds. A leak of 64
    # bytes per call would be 250 KiB in each round.
    expect(resident.each_cons(2).map { |before, after| after - before }.min).to be < 250
  end

  it "does not grow by failures either" do
    skip "/proc not mounted" unless Support::Inventory.available?
    gate = proxy
    gate.refuse
    url = gate.url
    grown = in_child do
      store = open_store(url)
      # Measures several times, because released resources may stay for a moment.
      measure = -> do
        Array
          .new(20) do
            sleep(0.005) && [Support::Inventory.descriptors.size, Support::Inventory.threads]
          end
          .transpose
          .map(&:min)
      end
      20.times { attempt_failure(store) }
      before = measure.call
      500.times { attempt_failure(store) }
      measure.call.zip(before).map { |after, first| after - first }
    end
    expect(grown).to all(be <= 0) # may be negative if older resources are freed meanwhile
  end
end
