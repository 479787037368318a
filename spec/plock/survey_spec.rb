# frozen_string_literal: true

require "spec_helper"
require "plock"
require "plock/survey"

RSpec.describe Plock::Survey do
  let(:finished) { [] }
  let(:store) { open_store("memory:") }
  let(:survey) { described_class.new(store) { |snapshot| finished << snapshot } }

  before do
    @now = 1_000.0
    allow(Plock::Clock).to receive(:now) { @now }
  end

  def hold(*keys) = keys.map { |key| discard(store.acquire(key, ttl: 600), :release) }

  # Lists the keys like a server that returns three keys at a time, and needs this many seconds for
  # each request.
  def list_slowly(names, seconds)
    names = names.map { |name| store.config.store_key(name) }
    @cursors = []
    allow(store).to receive(:list_keys) do |cursor, **|
      @cursors << cursor
      @now += seconds
      from = cursor || 0
      [names[from, 3], (from + 3 if from + 3 < names.size)]
    end
  end

  it "goes on where the request before it stopped, and shows what it has found so far" do
    names = Array.new(9) { |number| "k#{number}" }
    hold(*names)
    list_slowly(names, 0.1)
    expect(survey.snapshot(0.15)).to have_attributes(complete?: false, held: 0, rest: 6)
    expect(survey.snapshot(0.15)).to have_attributes(complete?: true, held: 9, rest: 0)
    expect(store).to have_received(:list_keys).exactly(3).times
    expect(finished.map(&:held)).to eq [9]
  end

  it "rests for thirty times its cost" do
    hold("a")
    list_slowly(["a"], 0.4)
    first = survey.snapshot(1.0)
    @now += 11.9
    expect(survey.snapshot).to be first
    hold("b")
    list_slowly(%w[a b], 0.4)
    @now += 0.2
    expect(survey.snapshot(1.0).held).to eq 2
  end

  it "rests for three seconds at least, and shows the last survey until the next is complete" do
    hold("a")
    first = survey.snapshot
    hold("b")
    @now += 2.9
    expect(survey.snapshot).to be first
    @now += 0.2
    list_slowly(%w[a b c d e], 0.2)
    expect(survey.snapshot(0.1)).to be first
    expect(survey.snapshot(1.0).held).to eq 2
  end

  it "begins again after a failure" do
    hold("a")
    allow(store).to receive(:list_keys).and_raise(Plock::UnavailableError, "away")
    expect { survey.snapshot }.to raise_error(Plock::UnavailableError)
    allow(store).to receive(:list_keys).and_call_original
    expect(survey.snapshot.held).to eq 1

    @now += 60
    list_slowly(%w[a b c d], 0.1)
    survey.snapshot(0.05)
    allow(store).to receive(:list_keys).and_raise(Plock::UnavailableError, "away")
    expect { survey.snapshot }.to raise_error(Plock::UnavailableError)
    list_slowly(%w[a b c d], 0.0)
    survey.snapshot
    expect(@cursors).to eq [nil, 3]
  end

  it "does not keep a second request waiting while one surveys" do
    hold("a")
    inside, goes_on = Queue.new, Queue.new
    allow(store).to receive(:list_keys).and_wrap_original do |list, *arguments, **options|
      inside << true
      goes_on.pop
      list.call(*arguments, **options)
    end
    first = background { survey.snapshot }
    inside.pop
    expect(survey.snapshot).to have_attributes(complete?: false, statuses: [])
    goes_on << true
    expect(first.value.held).to eq 1
  end

  it "looks at the clock after each key, so that a slow store takes no more than the budget" do
    names = Array.new(9) { |number| "k#{number}" }
    hold(*names)
    allow(store).to receive(:examine).and_wrap_original do |examine, *arguments|
      @now += 0.06
      examine.call(*arguments)
    end
    expect(survey.snapshot(0.1)).to have_attributes(held: 2, rest: 7, complete?: false)
    expect(survey.snapshot(0.1).held).to eq 4
    some = survey.examine_all(names.map { |name| store.config.store_key(name) }, 0.1)
    expect(some.size).to eq 2
    expect(survey.examine_all(names.map { |name| store.config.store_key(name) }, 0).size).to eq 1
  end

  it "leaves out keys that others have written, and those that are free" do
    hold("a")
    list_slowly(%w[a free], 0.0)
    expect(survey.snapshot.statuses.map(&:store_key)).to eq [store.config.store_key("a")]
    expect(survey.shows?(store.config.store_key("a"))).to be true
    expect(survey.shows?("plock:v1:x:#{"0" * 64}")).to be false
    all = described_class.new(store, all_namespaces: true)
    expect(all.shows?("plock:v1:x:#{"0" * 64}")).to be true
    expect(all.shows?("plock:v1:x:{#{"0" * 8}}#{"0" * 56}")).to be true # a key on a Redis Cluster
  end

  it "stops a listing that never ends, and says so" do
    hold("a")
    names = [store.config.store_key("a")]
    allow(store).to receive(:list_keys) do |cursor, **|
      @now += 0.1
      [names, (cursor || 0) + 1]
    end
    snapshots = Array.new(1_000) { survey.snapshot(0.15) }
    expect(snapshots.first).to have_attributes(complete?: false, cut?: false)
    expect(snapshots.last).to have_attributes(complete?: true, cut?: true, held: 1)
    expect(finished).not_to be_empty
  end

  it "stops at a number of keys that a page can show, and says so" do
    stub_const("#{described_class}::MOST_KEYS", 3)
    list_slowly(%w[a b c d], 0.0)
    expect(survey.snapshot).to be_cut
  end
end
