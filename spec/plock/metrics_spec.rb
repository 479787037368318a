# frozen_string_literal: true

require "spec_helper"
require "support/observed"
require "support/metrics"

RSpec.describe Plock::Metrics do
  include Support::Metrics

  include Support::Observed

  let(:key) { "metrics:#{SecureRandom.hex(8)}" }

  in_each_place do
    before do
      store
      recording
    end

    it "count what is held, per label and kind, in any number" do
      inside = nil
      store.acquire(key, label: "one") do
        store.semaphore(key, permits: 2).acquire(label: "one") do
          store.acquire_all([1, 2, 3].map { |number| "#{key}#{number}" }, label: "two") do
            inside = adapter.gauges.dup
          end
        end
      end
      names = [%w[one lock], %w[one semaphore], %w[two lock]]
      expect(names.map { |name| inside[[:held, *name]] }).to eq([1, 1, 3])
      expect(names.map { |name| gauge(:held, *name) }).to eq([0, 0, 0])
      expect(names.map { |name| gauge(:waiting, *name) }).to eq([0, 0, 0])
      expect(names.map { |name| histogram(:hold_time, *name).size }).to eq([1, 1, 3])
      expect(names.map { |name| histogram(:wait_time, *name).size }).to eq([1, 1, 3])
      expect(histogram(:hold_time, "one").first).to be > histogram(:hold_time, "two").max
    end

    it "count the callers that wait, how long they wait, and those that give up" do
      holder = store.acquire(key)
      waiters = Array.new(2) { background { store.acquire(key, wait: 30) { nil } } }
      eventually { gauge(:waiting) == 2 }
      expect(store.try_acquire(key)).to be_nil
      expect(gauge(:held)).to be(1)
      holder.release
      waiters.each(&:join)
      expect(gauge(:waiting)).to be(0)
      expect(gauge(:held)).to be(0)
      expect(counter(:timeouts)).to be(1)
      expect(counter(:contended)).to be(3)
      expect(histogram(:wait_time).size).to be(3)
    end

    it "do not count a caller that was killed or interrupted while it waited" do
      holder = store.acquire(key)
      killed = background { store.acquire(key, wait: 30) { nil } }
      raised = background { store.acquire(key, wait: 30) { nil } }
      eventually { gauge(:waiting) == 2 }
      killed.kill.join
      raised.raise(Interrupt)
      expect { raised.value }.to raise_error(Interrupt)
      expect(gauge(:waiting)).to be(0)
      expect(counter(:failures, "", "lock", "interrupted")).to be(1)
      expect(counter(:failures, "", "lock", "Interrupt")).to be(1)
      holder.release
    end

    it "count a loss once, and its lease as held no more" do
      warnings do
        store.acquire(key, label: "one") do
          store.break(key)
          expect(store.status(key).held?).to be(false)
        end
      end
      expect(counter(:losses, "one")).to be(1)
      expect(gauge(:held, "one")).to be(0)
      expect(histogram(:hold_time, "one").size).to be(1)
    end

    it "count a lease that was collected without a release, under its label" do
      Thread.new { store.acquire(key, ttl: 30, label: "one") }.join
      expect(gauge(:held, "one")).to be(1)
      warnings { eventually { GC.start || counter(:abandoned, "one") == 1 } }
      expect(gauge(:held, "one")).to be(0)
    end

    it "count a lease that had expired when it was collected as held no more" do
      Thread.new do
        lease = store.acquire(key, ttl: 0.05, label: "one")
        eventually { lease.lost? }
      end.join
      expect(gauge(:held, "one")).to be(1)
      eventually { GC.start || gauge(:held, "one").zero? }
      expect(counter(:abandoned, "one")).to be(1)
    end

    it "count a lease that was lost when it was collected only as lost" do
      lost = { fence: 17, expired: true }
      Plock::Events.tell(:abandoned, 0.0, store.status(key).store_key, "one", **lost)
      expect(counter(:abandoned, "one")).to be_zero
    end

    it "follow a lease to another owner" do
      dump = store.acquire(key, ttl: 30, label: "one").dump
      expect(gauge(:held, "one")).to be(0)
      expect(histogram(:hold_time, "one").size).to be(1)
      store.adopt(dump, label: "two") { expect(gauge(:held, "two")).to be(1) }
      expect(gauge(:held, "two")).to be(0)
    end

    it "count the child's leases in a forked child, and none of the parent's" do
      store.acquire(key, label: "one") do
        seen = in_child do
          other = store.acquire("#{key}+", label: "two")
          [gauge(:held, "one"), gauge(:held, "two"), other.release, gauge(:held, "two")]
        end
        expect(seen).to eq([0, 1, true, 0])
        expect(gauge(:held, "one")).to be(1)
      end
      expect(gauge(:held, "one")).to be(0)
    end

    it "stay right with many threads" do
      threads = Array.new(8) do |number|
        background { 50.times { |turn| store.acquire("#{key}#{number}:#{turn}") { nil } } }
      end
      threads.each(&:join)
      expect([gauge(:held), gauge(:waiting)]).to eq([0, 0])
      expect(histogram(:hold_time).size).to be(400)
    end
  end

  it "hold 10,000 leases, and forget all of them" do
    store = open_store(local_url("many"))
    recorder = recording
    leases = Array.new(10_000) { |number| store.acquire("#{key}#{number}", ttl: 300) }
    expect(gauge(:held)).to be(10_000)
    leases.each(&:release)
    expect(gauge(:held)).to be(0)
    kept = %i[@held @places].map { |name| recorder.instance_variable_get(name).size }
    expect(kept).to eq([0, 0])
  end

  it "keep nothing of leases that have ended" do
    store = open_store("memory:")
    recorder = recording
    3.times { store.acquire(key) { nil } }
    warnings do
      store.acquire(key) { store.break(key) }
      store.acquire(key).dump
    end
    kept = %i[@held @places].map { |name| recorder.instance_variable_get(name).size }
    expect(kept).to eq([0, 0])
  end

  it "count late renewals and failed releases, and calls that failed" do
    suffer(key, label: "one") { recording }
    expect(counter(:late_renewals, "one")).to be(1)
    expect(counter(:failed_releases, "one")).to be(1)
    expect(gauge(:held, "one")).to be(0)
    expect(counter(:failures, "", "lock", "Plock::UnavailableError")).to be(1)
  end

  it "show the pool: connections that are used and idle, calls that wait or have waited" do
    gate = proxy
    spans = { command_timeout: 20, attempt_timeout: 20, release_timeout: 20 }
    store = used(open_store(gate.url, pool_size: 1, **spans))
    recorder = recording(stores: { "locks" => store })
    pool = -> { adapter.gauges.select { |series,| series.first.start_with?("connection") } }
    gate.hold(:reply)
    threads = Array.new(3) do |number|
      background { store.acquire("#{key}#{number}", wait: 20) { nil } }
    end
    eventually { store.pool_status.waiting == 2 }
    recorder.refresh
    expect(pool.call).to eq(
      {
        [:"connection.count", "locks", "used"] => 1, [:"connection.count", "locks", "idle"] => 0,
        [:"connection.max", "locks"] => 1, [:"connection.pending_requests", "locks"] => 2
      }
    )
    gate.clear
    threads.each(&:join)
    expect(pool.call.values).to eq([0, 1, 1, 0])
    expect(adapter.counters[[:"connection.waits", "locks"]]).to eq(store.pool_status.waits)
    recorder.stop
    expect(pool.call.values).to eq([0, 0, 0, 0])
  end

  it "show the pool of the default store, and name stores by URLs without passwords" do
    program = <<~'RUBY'
      require "plock/metrics"
      require "support/metrics"
      adapter = Support::Metrics::Adapter.new
      recorder = Plock::Metrics.start(adapter)
      recorder.refresh
      p adapter.gauges
      Plock.configure { |c| c.url = ARGV[0] }
      Plock.acquire("k") { nil }
      p adapter.gauges.keys.grep(/max|store|redis/).size, adapter.gauges.keys.flatten.grep(/redis/)
        .uniq
      Plock::Metrics.start(adapter, stores: [Plock::Store.open("redis://user:secret@h:1/2")])
      p adapter.gauges.keys.flatten.grep(/:1/).uniq, adapter.gauges.to_s.include?("secret")
    RUBY
    env = { "RUBYLIB" => File.expand_path("..", __dir__) }
    output, status = ruby(program, shared_redis.url, env: env)
    expect(status).to be_success, output
    expect(output.lines.first).to eq("{}\n")
    expect(output).to include("redis://127.0.0.1").and(end_with("false\n"))
  end

  describe "the label" do
    let(:store) { open_store("memory:") }

    it "is that of the call, or what label: makes of it" do
      recording(label: ->(event) { event.label&.split(":")&.first })
      store.acquire(key, label: "import:42") { nil }
      store.acquire(key) { nil }
      expect(histogram(:wait_time, "import").size).to be(1)
      expect(histogram(:wait_time, "").size).to be(1)
      expect(adapter.histograms.keys.flatten.join).not_to include("42")
    end

    it "has no more values than max_labels:, and never shows a key or digest" do
      recording(max_labels: 2)
      5.times { |number| store.acquire(key, label: "label #{number}") { nil } }
      labels = adapter.histograms.keys.map { |series| series[1] }.uniq
      expect(labels).to eq(["label 0", "label 1", "other"])
      expect(histogram(:wait_time, "other").size).to be(3)
      everything = [adapter.histograms, adapter.gauges, adapter.counters].map(&:keys).join(" ")
      expect(everything).not_to match(/\h{12}|#{key}/)
    end

    it "may raise in label:, and the lock is not affected" do
      recording(label: ->(_) { raise "no label" })
      heard = warnings { expect(store.acquire(key) { :value }).to be(:value) }
      expect(heard).to include(/a subscriber to acquire raised RuntimeError: no label/)
    end
  end

  it "do not affect the lock if the adapter raises, and are right again afterwards" do
    store = open_store("memory:")
    recording
    allow(adapter).to receive(:set).and_raise(IOError, "the disk is full")
    heard = warnings { expect(store.acquire(key) { :value }).to be(:value) }
    expect(heard).to include(/a subscriber to acquire raised IOError: the disk is full/)
    allow(adapter).to receive(:set).and_call_original
    store.acquire(key) { expect(gauge(:held)).to be(1) }
    expect([gauge(:held), gauge(:waiting)]).to eq([0, 0])
  end

  it "stop, with gauges at zero, and leave the way through C free again" do
    store = used(open_store(local_url("stopped")))
    recorder = recording
    lease = store.acquire(key, ttl: 30)
    expect(gauge(:held)).to be(1)
    expect([recorder.stop, recorder.stop]).to eq([true, false])
    expect(gauge(:held)).to be(0)
    expect(Plock::Events.wanted?(:acquire)).to be(false)
    lease.release
    recorder.refresh
    expect(gauge(:held)).to be(0)
  end

  it "count once if an adapter is started twice, with the options of the second call" do
    recording
    recording(label: ->(_) { "second" })
    open_store("memory:").acquire(key) { nil }
    expect(adapter.histograms.keys.map { |series| series[1] }.uniq).to eq(["second"])
    expect(histogram(:wait_time, "second").size).to be(1)
  end

  it "count beside other subscribers" do
    store = open_store("memory:")
    heard = []
    subscription = Plock.subscribe { |event| heard << event.name }
    recording
    store.acquire(key) { nil }
    expect(heard).to eq(%i[acquire release])
    expect(histogram(:hold_time).size).to be(1)
  ensure
    Plock.unsubscribe(subscription)
  end

  it "refuse arguments that are not as described" do
    {
      [Object.new, {}] => /no method count/,
      [adapter, { label: "import" }] => /label: must be a callable \(got String\)/,
      [adapter, { max_labels: 0 }] => /max_labels: must be a positive Integer \(got 0\)/,
      [adapter, { stores: ["redis://h"] }] => /stores: must be a list of stores/,
      [adapter, { stores: Plock::Testing::MemoryStore.new }] => /stores: must be a list of stores/
    }.each do |(target, options), message|
      expect { described_class.start(target, **options) }.to raise_error(ArgumentError, message)
    end
    expect(Plock::Events.wanted?(:acquire)).to be(false)
  end

  it "name the gem that is missing" do
    program = <<~RUBY
      require "plock/metrics"
      module Kernel
        alias with_gems require
        def require(name)
          raise LoadError, "cannot load such file -- \#{name}" if name.match?(/prom|yabeda|opent/)

          with_gems(name)
        end
      end
      %i[prometheus yabeda open_telemetry].each do |name|
        Plock::Metrics.public_send(name)
      rescue Plock::UnsupportedError => e
        puts e.message[/add gem ".*"/]
      end
    RUBY
    expect(ruby(program).first).to eq(<<~TEXT)
      add gem "prometheus-client"
      add gem "yabeda"
      add gem "opentelemetry-metrics-sdk"
    TEXT
  end

  it "describe all instruments by names, units and buckets in seconds" do
    expect(described_class::INSTRUMENTS.values).to all(
      have_attributes(name: start_with("plock.client."), description: match(/\A[A-Z].{10,}/))
    )
    histograms = described_class::INSTRUMENTS.values.select { |each| each.type == :histogram }
    expect(histograms).to all(have_attributes(unit: "s"))
    histograms.each { |each| expect(each.buckets).to eq(each.buckets.sort.uniq) }
  end
end
