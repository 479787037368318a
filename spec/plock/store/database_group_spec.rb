# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"

RSpec.describe Plock::Store::Database::Group do
  let(:later) { [] }
  let(:site) do
    tokens = later
    Struct.new(:tables, :release_timeout).new(nil, 1.0).tap do |made|
      made.define_singleton_method(:settle_later) { |_key, token, _until| tokens << token }
    end
  end

  # A store that fails the first so many releases.
  def failing(times)
    Object.new.tap do |store|
      store.define_singleton_method(:give_back) { |*| (times -= 1).negative? || raise(Plock::UnavailableError.new("away", code: :silent)) }
      %i[tend forget].each { |name| store.define_singleton_method(name) { |*| nil } }
    end
  end

  def grants(store) = Array.new(3) { |number| Plock::Store::Grant.new(store, "k#{number}", "t#{number}").given(number + 1, Plock::Clock.now, 10.0) }

  it "gives back all of which nobody knows, though the store fails one of them" do
    given = grants(failing(1))
    described_class.new(site, given, 10.0).leave
    expect(given.map(&:ended)).to all(eq(:released))
    expect(later).to eq(["t0"])
  end

  it "sees later to each that the store fails" do
    given = grants(failing(3))
    described_class.new(site, given, 10.0).leave
    expect(given.map(&:ended)).to all(eq(:released))
    expect(later).to eq(%w[t0 t1 t2])
  end
end
