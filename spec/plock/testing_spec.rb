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
end
