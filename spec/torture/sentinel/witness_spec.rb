# frozen_string_literal: true

require "spec_helper"
require_relative "courses"
require_relative "overseer"
require_relative "report"
require_relative "witness"

RSpec.describe Torture::Sentinel::Witness do
  let(:chronicle) do
    Torture::Chronicle.new.tap { |c| %w[1 2].each_with_index { |name, i| c.born(name, i, 0) } }
  end

  def ms(number) = number * Torture::MILLISECOND

  # Times are in milliseconds. A call that enters has a lease of ten seconds, and leaves after 10
  # ms.
  def call(worker, way = :acquire, **facts)
    facts = {
      key: 0, asked: 0, wait: 3_000, ttl: 10_000, outcome: facts[:entered] ? :done : :refused
    }.merge(facts)
    if (entered = facts[:entered])
      facts = {
        fence: entered, at_first: entered + 10_000, valid_until: entered + 10_000,
        left: entered + 10, ended: (facts[:left] || (entered + 10)) + 1
      }.merge(facts)
    end
    plain = %i[key fence outcome handed adopts lost lane number watched]
    facts = facts.to_h do |name, value|
      [name, value.nil? || plain.include?(name) ? value : ms(value)]
    end
    way = Torture::WAYS.find { |one| one.name == way }
    Torture::Call.new(life: worker, lane: "0", number: 1, way: way, **facts)
  end

  # Notes a failover. The new primary has all data from before `from`. At `named`, all sentinels
  # name it. At `over`, they have told every client.
  def failover(from, named: from + 800, over: named + 1_000)
    times = { from: from, promoted: from + 20, named: named, over: over }
    chronicle.failovers << Torture::Chronicle::Failover.new(
      port: 1, told: true, **times.transform_values { |at| ms(at) }
    )
    chronicle.oblivions << Torture::Chronicle::Oblivion.new(ms(from), ms(over), nil)
  end

  def judge(*calls)
    history = Torture::History.new(calls: calls, chronicle: chronicle, findings: [], counts: {},
                                   delays: Torture::Delays.new)
    described_class.new(history).judge
  end

  def finds(*calls) = judge(*calls).kinds

  describe "exclusion" do
    it "is excused between a lease that the failover lost and a later one, and counted" do
      failover(1_000)
      judged = judge(call("1", asked: 1_000, entered: 1_010, left: 4_000),
                     call("2", asked: 3_000, entered: 3_010))
      expect(judged.kinds).to be_empty
      expect(judged.counts.slice(:excused, :failovers)).to eq(excused: 1, failovers: 1)
    end

    it "is excused between what the old primary and the new one grant" do
      failover(1_000)
      expect(finds(call("1", asked: 1_900, entered: 1_910, left: 2_900),
                   call("2", asked: 2_600, entered: 2_650))).to be_empty
    end

    it "is not excused before the failover" do
      failover(1_000)
      expect(finds(call("1", asked: 100, entered: 110, left: 900, valid_until: 15_000),
                   call("2", asked: 500, entered: 510))).to eq [:overlap]
    end

    it "is not excused if the new primary had the lease" do
      failover(1_000)
      held = { asked: 100, entered: 110, left: 4_000 }
      later = call("2", asked: 3_000, entered: 3_010)
      expect(finds(call("1", **held), later)).to eq [:overlap]
      # the failover may have lost an extension
      expect(finds(call("1", **held, valid_until: 15_000), later)).to be_empty
    end

    it "is not excused between two leases after every client has been told" do
      failover(1_000)
      expect(finds(call("1", asked: 2_900, entered: 2_910, left: 4_000),
                   call("2", asked: 2_950, entered: 2_960))).to eq [:overlap]
    end

    it "is not excused if a lease that is watched is still believed in a second later" do
      failover(1_000)
      lost = { asked: 1_000, entered: 1_010, left: 5_000 }
      expect(finds(call("1", **lost, watched: true),
                   call("2", asked: 3_000, entered: 3_900))).to eq [:overlap]
      expect(finds(call("1", **lost), call("2", asked: 3_000, entered: 3_900))).to be_empty
      expect(finds(call("1", **lost, watched: true),
                   call("2", asked: 3_000, entered: 3_700))).to be_empty
    end

    it "grants a process that was stopped its time to be told" do
      failover(1_000)
      chronicle.lives["1"].stops << [ms(1_500), ms(3_500)]
      late = call("1", asked: 1_400, entered: 3_520, left: 4_000)
      expect(finds(late, call("2", asked: 3_600, entered: 3_610))).to be_empty
    end

    it "is not excused for long if both leases are watched" do
      failover(1_000)
      leases = { left: 5_000, watched: true }
      expect(finds(call("1", asked: 1_100, entered: 1_110, **leases),
                   call("2", asked: 1_900, entered: 1_910, **leases))).to eq [:untold]
      expect(finds(call("1", asked: 1_100, entered: 1_110, **leases, left: 3_700),
                   call("2", asked: 1_900, entered: 1_910, **leases))).to be_empty
    end
  end

  describe "fences" do
    it "order the leases that overlap" do
      failover(1_000)
      lost = call("1", asked: 1_000, entered: 1_010, left: 4_000, fence: 50)
      later = { asked: 1_500, entered: 1_600 }
      expect(finds(lost, call("2", **later, fence: 51))).to be_empty
      expect(finds(lost, call("2", **later, fence: 50))).to include(:stale)
      expect(finds(lost, call("2", **later, fence: 49))).to include(:stale)
    end

    it "need not be in the order in which two primaries answer" do
      failover(1_000)
      expect(finds(call("1", asked: 1_000, entered: 1_010, left: 4_000, fence: 51),
                   call("2", asked: 1_005, entered: 1_600, fence: 50))).to be_empty
    end
  end

  describe "a loss" do
    it "is explained by a failover" do
      failover(1_000)
      lost = call("1", asked: 1_000, entered: 1_010, left: 3_000, lost: [[ms(2_900), ms(11_010)]])
      expect(finds(lost)).to be_empty
    end

    it "is not explained by one whose primary had the lease" do
      failover(1_000)
      held = { asked: 100, entered: 110, left: 3_000, lost: [[ms(2_900), ms(10_110)]] }
      expect(finds(call("1", **held))).to eq [:lost]
      expect(finds(call("1", **held, valid_until: 15_000))).to be_empty
    end

    it "is not explained if the lease was seen at the new primary" do
      failover(1_000)
      lost = { asked: 1_000, entered: 1_010, left: 3_000, lost: [[ms(2_900), ms(11_010)]] }
      expect(finds(call("1", **lost, held: 2_500))).to eq [:lost]
      expect(finds(call("1", **lost, held: 1_500))).to be_empty
    end

    it "is not explained without a failover" do
      expect(finds(call("1", asked: 0, entered: 10, lost: [[ms(15), ms(10_010)]]))).to eq [:lost]
    end
  end

  describe "waiters" do
    def free(from, to) =
      chronicle.free[0] << Torture::Chronicle::Free.new(1, ms(from), ms(to))

    let(:waiter) { call("1", asked: 500, wait: 8_000, seen: 600, queued: 600, entered: 4_500) }

    it "take a key that is free within a second and a quarter of the new primary" do
      failover(1_000)
      free(2_000, 4_400)
      expect(finds(waiter)).to eq [:untaken]
    end

    it "have that time" do
      failover(1_000)
      free(2_000, 4_000)
      expect(finds(waiter)).to be_empty
    end

    it "are not asked for it if the key was taken, or they were disturbed" do
      failover(1_000)
      free(2_000, 4_400)
      expect(finds(waiter, call("2", asked: 2_900, entered: 2_910))).not_to include(:untaken)
      chronicle.lives["1"].stops << [ms(3_000), ms(3_500)]
      expect(finds(waiter)).to be_empty
    end

    it "are served in their order again, a second and a quarter after it" do
      failover(1_000)
      expect(finds(waiter, call("2", asked: 4_100, entered: 4_200))).to eq [:order]
      expect(finds(waiter, call("2", asked: 4_000, entered: 4_200))).to be_empty
    end
  end

  describe "a record that is still there" do
    it "may be that of a lease whose release a failover has lost" do
      failover(1_000)
      expect(finds(call("1", asked: 1_000, entered: 1_010, held: 6_000))).to be_empty
      expect(finds(call("1", asked: 3_000, entered: 3_010, held: 6_000))).to eq [:held]
    end

    it "may be that of a waiter whose record a failover has brought back" do
      failover(1_000)
      expect(finds(call("1", asked: 2_700, seen: 2_710, queued: 2_710, wait: 500, ended: 3_201,
                        waited: 6_000))).to be_empty
      expect(finds(call("1", asked: 2_900, seen: 2_910, queued: 2_910, wait: 300, ended: 3_201,
                        waited: 6_000))).to eq [:ghost]
    end
  end

  describe "a call that fails" do
    it "is excused by a failover, and by nothing else" do
      failover(1_000)
      expect(finds(call("1", asked: 1_100, outcome: :failed, ended: 1_500))).to be_empty
      expect(finds(call("1", asked: 4_500, outcome: :failed, ended: 4_700))).to eq [:failure]
    end

    it "has its budget in a failover, too" do
      failover(1_000)
      late = call("1", asked: 1_100, wait: 300, outcome: :failed, ended: 1_500)
      expect(finds(late)).to eq [:budget]
    end
  end

  it "decides the same again with the same seed" do
    courses = Array.new(8) { |seed| Torture::Sentinel.course_of(seed, nil).name }
    expect(courses.each_slice(2).map(&:first).uniq).to eq [:rough]
    expect(courses.uniq).to match_array(Torture::Sentinel::COURSES.keys)
    draw = ->(seed) do
      Torture::Sentinel::COURSES.each_value.map do |course|
        blows = Torture::Blows.new(Torture.random(seed, :driver), course)
        Array.new(50) { blows.draw }
      end
    end
    expect(draw[1]).to eq draw[1]
    expect(draw[1]).not_to eq draw[2]
  end
end
