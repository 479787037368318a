# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "Garbage collection" do
  include Support::Failures

  let(:key) { unique_key }

  # In seconds: longer than all calls of `work` take, even under valgrind with a garbage collection
  # at each allocation.
  let(:long_s) { 3_600 }

  # Calls each operation of the binding once.
  def work(store, key)
    owner = Plock.token
    failure = ->(&call) do
      call.call
    rescue Plock::Error, ArgumentError, TypeError => e
      e.class
    end
    [
      store.hold(key, long_s * 1_000, 1.0, ->(*) {}) do |lease|
        [lease.valid?, lease.token.size, lease.key == key, lease.inspect.class]
      end,
      store.lock_acquire(key, owner, long_s),
      store.lock_acquire(key, "another", long_s),
      failure.call { store.hold(key, 60_000, 0, nil) { nil } },
      store.lock_release(key, owner),
      store.lock_release(key, owner),
      failure.call { store.hold(key, 60_000, 1.0, nil) { raise ArgumentError } },
      catch(:out) { store.hold(key, 60_000, 1.0, nil) { throw :out, :thrown } },
      Plock.digest("m", "secret" * 3).size,
      Plock.store_key("p:", "k").size,
      store.url.size,
      store.inspect.class,
      failure.call { Plock::Store.open("redis://[:1") }
    ]
  end

  def stressed
    GC.stress = true
    yield
  ensure
    GC.stress = false
  end

  it "at every allocation changes nothing", :slow do
    store = open_store
    calm = work(store, key)
    expect(stressed { work(store, key) }).to eq(calm)
  end

  it "at every allocation changes nothing with failing stores, new ones and reports", :slow do
    absent = "unix://#{Support::Supervisor.folder}/absent.sock"
    codes = []
    stressed do
      store = Plock::Store.open(absent)
      begin
        store.hold(key, 3_000, 0.02, ->(phase, error) { codes << [phase, error.code] }) { nil }
      rescue Plock::TimeoutError
        codes << :timeout
      end
      store.close
    end
    expect(codes.uniq).to eq([%i[acquire connect], :timeout])
  end

  it "with compaction changes nothing" do
    skip "this Ruby does not compact" unless GC.respond_to?(:compact)
    store = open_store
    calm = work(store, key)
    compacted = store.hold(unique_key, 3_000, 5, ->(*) {}) do |lease|
      GC.compact
      [lease.token.size, work(store, key)]
    end
    expect(compacted).to eq([36, calm])
    growth = RUBY_VERSION < "3.2" ? :double_heap : :expand_heap
    if GC.respond_to?(:verify_compaction_references)
      GC.verify_compaction_references(:toward => :empty, growth => true)
    end
    expect(work(store, key)).to eq(calm)
  end

  it "with automatic compaction changes nothing", :slow do
    skip "this Ruby does not compact" unless GC.respond_to?(:auto_compact=)
    store = open_store
    calm = work(store, key)
    begin
      GC.auto_compact = true
      20.times do
        GC.start
        expect(work(store, key)).to eq(calm)
      end
    ensure
      GC.auto_compact = false
    end
  end

  it "does not take a store away from a hold that still uses it" do
    value = Plock::Store.open(shared_redis.unix_url).hold(key, 60_000, 1.0, nil) do
      GC.start
      GC.start
      held?(key)
    end
    expect([value, held?(key)]).to eq([true, false])
  end

  it "lets a lease outlive its hold: the lease is then not valid" do
    kept = open_store.hold(key, 60_000, 1.0, nil) { |lease| lease }
    GC.start
    expect([kept.valid?, kept.key, kept.token.size]).to eq([false, key, 36])
  end

  it "closes the connections of unreferenced stores" do
    server = redis_server
    in_child do
      20.times { warm(Plock::Store.open(server.unix_url)) && nil }
      nil.then { 100.times { +"what lay on the stack" } }
      GC.start
      server.connections
    end.then { |left| expect(left).to be <= 2 } # the stack may still refer to one of the stores
  end

  it "frees stores that are opened and dropped: memory stays the same" do
    skip "/proc not mounted" unless Support::Inventory.available?
    resident = -> do
      GC.start
      File.read("/proc/self/statm").split[1].to_i * 4
    end
    url = shared_redis.unix_url
    measured = in_child do
      Array.new(6) do
        300.times { warm(Plock::Store.open(url)).close }
        resident.call
      end
    end
    # A leak grows in every round, so the round with the least growth decides. If each store leaked
    # half a KiB, that round would show 150 KiB.
    expect(measured.each_cons(2).map { |before, after| after - before }.min).to be < 150
  end
end
