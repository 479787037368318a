# frozen_string_literal: true

require "spec_helper"
require_relative "courses"
require_relative "witness"

RSpec.describe Torture::Cluster::Witness do
  let(:chronicle) do
    Torture::Chronicle.new.tap { |c| %w[1 2].each_with_index { |name, i| c.born(name, i, 0) } }
  end

  def ms(number) = number * Torture::MILLISECOND

  # Times are in milliseconds. The call has a lease of ten seconds.
  def call(worker, asked:, entered:, left:, fence: entered, watched: false)
    Torture::Call.new(
      life: worker, lane: "0", number: 1, way: Torture::WAYS.find { |way| way.name == :acquire },
      key: 0, asked: ms(asked), wait: ms(3_000), ttl: ms(10_000), outcome: :done, fence: fence,
      entered: ms(entered), at_first: ms(entered + 10_000), valid_until: ms(entered + 10_000),
      left: ms(left), ended: ms(left + 1), watched: watched
    )
  end

  def finds(*calls)
    history = Torture::History.new(calls: calls, chronicle: chronicle, findings: [], counts: {},
                                   delays: Torture::Delays.new)
    described_class.new(history).judge.kinds
  end

  it "excuses neither an overlap nor a fence while a slot moves" do
    chronicle.downs << [ms(0), ms(5_000)]
    one = call("1", asked: 100, entered: 110, left: 3_000)
    expect(finds(one, call("2", asked: 1_000, entered: 1_010, left: 1_020))).to eq [:overlap]
    later = call("2", asked: 3_100, entered: 3_110, left: 3_120, fence: 50)
    expect(finds(one, later)).to include(:fence)
  end

  it "grants the holder of a lost lease that is renewed five seconds to learn of it" do
    chronicle.failovers << Torture::Chronicle::Failover.new(
      port: 1, told: true, from: ms(1_000), promoted: ms(1_500), named: ms(1_800), over: ms(2_800)
    )
    chronicle.oblivions << Torture::Chronicle::Oblivion.new(ms(1_000), ms(2_800), nil)
    lost = call("1", asked: 1_000, entered: 1_010, left: 9_500, watched: true)
    expect(finds(lost, call("2", asked: 7_000, entered: 7_700, left: 7_710))).to be_empty
    expect(finds(lost, call("2", asked: 7_000, entered: 7_900, left: 7_910))).to eq [:overlap]
  end

  it "decides the same again with the same seed" do
    draw = ->(seed) do
      Torture::Cluster::COURSES.each_value.map do |course|
        blows = Torture::Blows.new(Torture.random(seed, :driver), course)
        Array.new(50) { blows.draw }
      end
    end
    expect(draw[1]).to eq draw[1]
    expect(draw[1]).not_to eq draw[2]
    courses = Array.new(8) { |seed| Torture::Cluster.course_of(seed, nil).name }
    expect(courses.uniq).to match_array(Torture::Cluster::COURSES.keys)
  end
end
