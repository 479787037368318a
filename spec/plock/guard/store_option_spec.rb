# frozen_string_literal: true

require "spec_helper"
require "plock/jobs/guard"
require "plock/jobs/guard/held"

RSpec.describe Plock::Guard::Options, "#store" do
  after { Plock.reset! }

  def guarded(store) = described_class.new(store: store)

  it "is the default one, whichever that is when a key is asked for" do
    guard = described_class.new
    Plock::Testing.install do |store|
      guard.store.acquire("k") { expect(store.status("k")).to be_held }
      expect(Plock::Guard::Held.opened(guard.store)).to be(store)
    end
  end

  it "is the one that was given" do
    store = Plock::Store.open("memory:")
    expect(guarded(store).store).to be(store)
  end

  it "is at the given URL, for all guards that name it, with keys named as in the default store" do
    Plock.configure { |c| [c.url = "memory:", c.namespace = "billing"] }
    store = guarded("memory:guards").store
    expect(guarded("memory:guards").store).to be(store)
    expect([store.url, store.acquire("k", &:store_key)]).to match(
      ["memory:guards", start_with("plock:v1:billing:")]
    )
  end

  it "is what a callable returns, when the first key is asked for" do
    called = 0
    store = Plock::Store.open("memory:")
    guard = guarded(-> { (called += 1) && store })
    expect(called).to be(0)
    expect([guard.store, guard.store, called]).to eq([store, store, 1])
    expect { guarded(-> { 5 }).store }.to raise_error(
      Plock::ConfigurationError, /callable store: .* \(got Integer\)/
    )
  end

  it "is refused where it can be none, when the class is loaded" do
    [5, ""].each do |value|
      expect { guarded(value) }.to raise_error(
        ArgumentError, /\Aguard_with: store: must be a store, a URL/
      )
    end
  end
end
