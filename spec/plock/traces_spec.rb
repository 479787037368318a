# frozen_string_literal: true

require "spec_helper"
require "support/observed"
require "opentelemetry-sdk"
require "plock/traces"

RSpec.describe Plock::Traces do
  include Support::Observed

  error = OpenTelemetry::Trace::Status::ERROR
  let(:key) { "traces:#{SecureRandom.hex(8)}" }
  let(:exporter) { OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new }
  let(:provider) do
    OpenTelemetry::SDK::Trace::TracerProvider.new.tap do |provider|
      processor = OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(exporter)
      provider.add_span_processor(processor)
    end
  end

  def tracing = discard(described_class.start(tracer_provider: provider), :stop)

  # The spans that have ended, each with its name without the prefix.
  def spans = exporter.finished_spans.map { |span| [span.name.delete_prefix("plock."), span] }

  def names = spans.map(&:first)

  def named(name) = spans.filter_map { |each, span| span if each == name }

  in_each_place do
    before do
      store
      tracing
    end

    it "make a span of the call and one of the lease, below the caller's" do
      fence = nil
      provider.tracer("test").in_span("outer") do
        store.acquire(key, label: "one") { |lease| fence = lease.fence }
      end
      expect(names).to eq(%w[acquire hold outer])
      acquire, hold, outer = spans.map(&:last)
      expect([acquire, hold].map(&:parent_span_id)).to all(eq(outer.span_id))
      expect([acquire, hold].map(&:trace_id)).to all(eq(outer.trace_id))
      expect(hold.attributes).to match(
        "plock.kind" => "lock", "plock.label" => "one", "plock.fence" => fence,
        "plock.key_digest" => /\A\h{64}\z/
      )
      expect(acquire.attributes).to include("plock.contended" => false, "plock.fence" => fence)
      expect(acquire.end_timestamp).to be <= hold.start_timestamp + 50_000_000
      expect([acquire, hold].map { |span| span.status.code }).not_to include(error)
      expect(acquire.links.to_a + hold.links.to_a).to be_empty
      expect(spans.map { |_, span| span.attributes.to_s }.join).not_to include(key)
    end

    it "link the waiter's span to that of the holder, and last as long as the wait" do
      held = Queue.new
      go = Queue.new
      holder = background { store.acquire(key, label: "holder") { (held << true) && go.pop } }
      held.pop
      waiter = background { store.acquire(key, wait: 30, label: "waiter") { nil } }
      await_sleep(waiter)
      eventually { store.status(key).waiters.size == 1 }
      go << true
      [holder, waiter].each(&:join)
      hold = named("hold").find { |span| span.attributes["plock.label"] == "holder" }
      acquire = named("acquire").find { |span| span.attributes["plock.label"] == "waiter" }
      expect(acquire.links.map { |link| link.span_context.span_id }).to eq([hold.span_id])
      expect(acquire.attributes["plock.contended"]).to be(true)
      expect(acquire.start_timestamp).to be < hold.end_timestamp + 1_000_000
      expect(acquire.start_timestamp).to be > hold.start_timestamp
    end

    it "make an error of a timeout, with a link to the holder" do
      store.acquire(key) { nil } # this lease must not be linked
      lease = store.acquire(key, ttl: 30)
      expect(store.try_acquire(key, wait: 0.01)).to be_nil
      lease.release
      timeout = named("acquire").last
      expect(timeout.status)
        .to have_attributes(code: error, description: "timed out after 0.01 s")
      expect(timeout.links.map { |link| link.span_context.span_id })
        .to eq([named("hold").last.span_id])
    end

    it "make an error of a loss, once" do
      warnings do
        store.acquire(key) do
          store.break(key)
          nil
        end
      end
      expect(names).to eq(%w[acquire hold])
      expect(named("hold").first.status)
        .to have_attributes(code: error, description: "the lease was lost")
    end

    it "make an error of a call that was killed" do
      holder = store.acquire(key, ttl: 30)
      killed = background { store.acquire(key, wait: 30) { nil } }
      eventually { store.status(key).waiters.size == 1 }
      killed.kill.join
      holder.release
      expect(named("acquire").last.status)
        .to have_attributes(code: error, description: "interrupted")
    end

    it "end the span of a lease that was collected, or handed over" do
      Thread.new { store.acquire(key, ttl: 30) }.join
      warnings { eventually(20) { GC.start || !named("hold").empty? } }
      expect(named("hold").first.status.description).to match(/collected without a release/)
      dump = store.acquire("#{key}+", ttl: 30).dump
      store.adopt(dump) { expect(named("hold").size).to be(2) }
      expect(named("hold").size).to be(3)
    end

    it "end the span of a lease that had expired when it was collected" do
      Thread.new do
        lease = store.acquire(key, ttl: 0.05)
        eventually { lease.lost? }
      end.join
      eventually(20) { GC.start || !named("hold").empty? }
      expect(named("hold").first.status.description).to match(/collected without a release/)
    end

    it "make spans of the child's leases in a forked child, and end none of the parent's" do
      lease = store.acquire(key, ttl: 30)
      exporter.reset
      seen = in_child do
        store.acquire("#{key}+") { nil }
        names
      end
      expect(seen).to eq(%w[acquire hold])
      lease.release
      expect(names).to eq(%w[hold])
    end

    it "make spans of each kind, and of each key of several" do
      semaphore = store.semaphore(key, permits: 2)
      other = semaphore.acquire
      semaphore.acquire { nil }
      expect(named("acquire").flat_map { |span| span.links.to_a }).to be_empty # neither call waited
      other.release
      store.read_write_lock(key).read { nil }
      store.acquire_all([key, "#{key}+"]) { nil }
      kinds = named("hold").map { |span| span.attributes.values_at("plock.kind", "plock.mode") }
      expect(kinds).to eq(
        [*[["semaphore", nil]] * 2, %w[read_write read], *[["lock", nil]] * 2]
      )
      expect(named("acquire").size).to be(5)
    end
  end

  it "make an error of a failed release and of a failed call, and note a late renewal" do
    suffer(key) { tracing }
    hold = named("hold").first
    expect(hold.events.map(&:name)).to include("plock.late_renewal")
    expect(hold.status).to have_attributes(code: error, description: "the release failed")
    failed = named("acquire").last
    expect(failed.attributes["error.type"]).to eq("Plock::UnavailableError")
    expect(failed.status.code).to eq(error)
  end

  it "do not mix up callers that alternate" do
    store = open_store("memory:")
    tracing
    threads = Array.new(6) { background { 30.times { store.acquire(key, wait: 30) { nil } } } }
    threads.each(&:join)
    holds = named("hold").map(&:span_id)
    expect(holds.size).to be(180)
    linked = named("acquire").flat_map { |span| span.links.to_a }
    expect(linked.map { |link| link.span_context.span_id } - holds).to eq([])
    # if a holder has left before the waiter's event is reported, the holder's span may be unknown
    alone = named("acquire").reject { |span| span.attributes["plock.contended"] }
    expect(alone.flat_map { |span| span.links.to_a }).to eq([])
  end

  it "keep nothing of 10,000 keys but the last 1,000" do
    store = open_store(local_url("many"))
    recorder = tracing
    10_000.times { |number| store.acquire("#{key}#{number}") { nil } }
    kept = %i[@holds @ids @ended].map { |name| recorder.instance_variable_get(name).size }
    expect(kept).to eq([0, 0, 1000])
  end

  it "end when they are stopped, with the spans of leases that are held" do
    store = open_store("memory:")
    recorder = tracing
    lease = store.acquire(key)
    expect([recorder.stop, recorder.stop]).to eq([true, false])
    expect(names).to eq(%w[acquire hold])
    lease.release
    store.acquire(key) { nil }
    expect(names).to eq(%w[acquire hold])
  end

  it "are made once after a second start, and do not affect the lock if the tracer raises" do
    store = open_store("memory:")
    tracing
    tracing
    store.acquire(key) { nil }
    expect(names).to eq(%w[acquire hold])
    tracer = provider.tracer("plock", Plock::VERSION)
    allow(tracer).to receive(:start_span).and_raise(IOError, "no span")
    heard = warnings { expect(store.acquire(key) { :value }).to be(:value) }
    expect(heard.join).to match(/a subscriber to acquire raised IOError: no span/)
  end

  it "need no SDK, and name the gem if there is no API" do
    program = <<~RUBY
      require "plock/traces"
      module Kernel
        alias with_gems require
        def require(name)
          raise LoadError, "cannot load such file -- \#{name}" if name.match?(/opentelemetry/)

          with_gems(name)
        end
      end
      begin
        Plock::Traces.start
      rescue Plock::UnsupportedError => e
        puts e.message[/add gem ".*"/]
      end
      Kernel.alias_method :require, :with_gems
      Plock::Traces.start
      puts Plock::Store.open("memory:").acquire("k") { "done" }
    RUBY
    expect(ruby(program).first).to eq(%(add gem "opentelemetry-sdk"\ndone\n))
  end
end
