# frozen_string_literal: true

require "spec_helper"

RSpec.describe Plock::Testing do
  after { Plock.reset! }

  it ".install puts a store in memory in the default one's place, for the time of a block" do
    before = Plock.configure { |c| c.url = "memory:configured" } || Plock.store
    value = described_class.install do |store|
      expect(Plock.store).to be(store).and be_a(Plock::Testing::MemoryStore)
      Plock.acquire("k") { store.status("k").held? }
    end
    expect(value).to be(true)
    expect(Plock.store).to be(before)
  end

  it ".install and .uninstall do it without a block, with a fresh store each time" do
    first = described_class.install
    expect(Plock.store).to be(first)
    second = described_class.install
    expect(second).not_to be(first)
    described_class.uninstall
    Plock.configure { |c| c.url = "memory:" }
    expect(Plock.store).not_to be(second)
  end

  describe ".install, with a configuration" do
    def installed = described_class.install { |store| store }

    it "has the defaults and the names of keys of the configured store" do
      logger = Object.new.tap { |object| object.define_singleton_method(:warn) { |_| nil } }
      Plock.configure do |c|
        c.url = "redis://127.0.0.1:1"
        c.options = { pool_size: 2 }
        c.ttl, c.wait, c.namespace, c.secret, c.logger = 30, 0, "billing", "s" * 16, logger
      end
      expected = Plock::Store.open("memory:", namespace: "billing", secret: "s" * 16)
      expect(installed.config).to have_attributes(ttl: 30.0, wait: 0.0, logger: logger)
      expect(installed.status("k").store_key).to eq expected.status("k").store_key
      described_class.install do
        expect(Plock.acquire("k", &:ttl)).to eq 30
      end
    end

    it "has those of a store that the configuration was given" do
      Plock.configure { |c| c.store = Plock::Store.open("memory:given", ttl: 20, namespace: "ns") }
      expect(installed.config).to have_attributes(ttl: 20.0, namespace: "ns")
    end

    it "calls no callable that opens a store" do
      Plock.configure do |c|
        c.store = -> { raise "opened" }
        c.ttl = 20
      end
      expect(installed.config.ttl).to eq 20
    end

    it "refuses a setting as the configured store would" do
      Plock.configure { |c| c.ttl = "soon" }
      expect { installed }.to raise_error(Plock::ConfigurationError)
    end
  end

  describe ".install, between tests" do
    let(:name) { "memory:#{SecureRandom.hex(8)}" }
    let(:stores) { [Plock::Store.open("memory:"), Plock::Store.open(name)] }

    it "empties every store in memory, that of the configuration among them" do
      Plock.configure { |c| c.url = "memory:" }
      leases = [*stores, Plock.store].map { |store| store.acquire("k", ttl: 600) }
      waiter = background { stores.last.try_acquire("k", wait: 600) }
      eventually { stores.last.status("k").waiters.any? }
      stores.last.advance(60)
      described_class.install { nil }
      expect(waiter.value).to be_nil
      expect([*stores, Plock.store].map { |store| store.status("k").held? }).to eq([false] * 3)
      expect(leases.map { |lease| [lease.lost?, lease.release] }).to eq([[true, false]] * 3)
      expect(stores.last.acquire("k", ttl: 10) { |lease| lease.remaining.round }).to be(10)
    end

    it "does not report or renew the leases that were left, and forgets the secrets" do
      told = []
      Plock::Store.open(name, secret: "s" * 16).acquire(
        "k", ttl: 0.1, renew: true, on_lost: ->(lease) { told << lease }
      )
      described_class.install { nil }
      expect(Plock::Store.open(name, secret: "t" * 16).acquire("k", wait: 0) { :ran }).to be(:ran)
      Plock::Dispatcher.flush
      expect(told).to be_empty
    end

    it "leaves leases within an outer block alone" do
      described_class.install do |outer|
        lease = outer.acquire("k")
        described_class.install { nil }
        expect(lease).to be_valid
        lease.release
      end
    end
  end
end
