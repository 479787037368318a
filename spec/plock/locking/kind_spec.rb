# frozen_string_literal: true

require "spec_helper"

RSpec.describe Plock::Locking::Kind do
  let(:config) { Plock::Locking::StoreConfig.new(namespace: "x") }
  let(:kinds) { described_class::ALL }

  it "gives a key of each kind a name of its own, and is known by that name" do
    names = kinds.map { |kind| config.store_key("k", kind) }
    expect(names).to all(start_with(Plock.store_key("plock:v1:x:", "k")))
    expect(names.uniq.size).to be(kinds.size)
    expect(names.map { |name| described_class.of(name) }).to eq(kinds)
    expect(kinds.map { |kind| [kind.name, kind.shared?] })
      .to match_array([[:lock, false], [:once, false], [:semaphore, true], [:read_write, true]])
  end

  it "does not let a namespace take another's names for its own" do
    plain = Plock::Locking::StoreConfig.new
    spaces = [
      plain, config, Plock::Locking::StoreConfig.new(namespace: "once"),
      Plock::Locking::StoreConfig.new(namespace: "f" * 32)
    ]
    spaces.product(kinds, spaces) do |space, kind, other|
      expect(other.own?(space.store_key("k", kind))).to be(other.equal?(space)),
      [space, kind.name, other].inspect
    end
    [
      "plock:v1:", "plock:v1:#{"0" * 63}", "plock:v1:#{"0" * 64}:queue", "other:#{"0" * 64}",
      "0" * 64
    ].each { |name| expect(plain.own?(name)).to be(false), name }
  end
end
