# frozen_string_literal: true

require "spec_helper"
require_relative "witness"

RSpec.describe Torture::Stores::Witness do
  let(:chronicle) do
    Torture::Chronicle.new.tap { |c| %w[1 2 3].each_with_index { |name, i| c.born(name, i, 0) } }
  end
  let(:kind) { Torture::Stores::KINDS.fetch("database-postgresql") }

  def ms(number) = number * Torture::MILLISECOND

  def life(name) = chronicle.lives.fetch(name)

  def died(name, at) = life(name).tap { |one| one.died = one.killed = ms(at) }

  # Times are in milliseconds. A call that enters has a lease of 500 ms, and leaves after 10 ms.
  def call(worker, way = :acquire, **facts)
    facts = {
      key: 0, asked: 0, wait: 3_000, ttl: 500, outcome: facts[:entered] ? :done : :refused
    }.merge(facts)
    if (entered = facts[:entered])
      facts = {
        fence: entered, at_first: entered + 500, valid_until: entered + 500, left: entered + 10,
        ended: entered + 11
      }.merge(facts)
    end
    plain = %i[key fence outcome lane number]
    facts =
      facts.to_h { |name, value| [name, value.nil? || plain.include?(name) ? value : ms(value)] }
    way = Torture::WAYS.find { |one| one.name == way }
    Torture::Call.new(life: worker, lane: "0", number: 1, way: way, **facts)
  end

  def judge(*calls, kind: self.kind, failures: {})
    history = Torture::History.new(calls: calls, chronicle: chronicle, findings: [], counts: {},
                                   delays: Torture::Delays.new)
    described_class.new(history, kind, failures: failures).judge
  end

  def finds(*calls, **options) = judge(*calls, **options).kinds

  def kind_named(name) = Torture::Stores::KINDS.fetch(name)

  it "finds nothing in calls that went well" do
    expect(
      finds(call("1", entered: 10), call("2", entered: 30), call("3", asked: 20, entered: 50))
    ).to be_empty
  end

  describe "exclusion" do
    it "sees two valid leases at the same time" do
      expect(finds(call("1", entered: 10), call("2", entered: 15))).to eq [:overlap]
    end

    it "lets a lease end with its time, though its holder was stopped and goes on" do
      expect(
        finds(call("1", entered: 10, left: 900, ended: 901), call("2", entered: 520, asked: 500))
      ).to be_empty
    end

    it "grants a lock that a connection holds the end of that connection, but no other store" do
      life("1").cuts << [ms(12), ms(13)]
      both = [call("1", entered: 10, left: 100, ended: 101), call("2", entered: 50)]
      expect(finds(*both)).to eq [:overlap]
      expect(finds(*both, kind: kind_named("advisory-mariadb"))).to be_empty
    end

    it "grants a stopped waiter a lease that was granted and forgotten in the meantime" do
      life("2").stops << [ms(10), ms(149)]
      chronicle.downs << [ms(20), ms(40)]
      chronicle.oblivions << Torture::Chronicle::Oblivion.new(ms(20), ms(40), nil)
      both = [call("1", asked: 100, entered: 140, left: 160, ended: 161), call("2", entered: 150)]
      expect(finds(*both, kind: kind_named("advisory-postgresql"))).to be_empty
      life("2").stops.clear
      expect(finds(*both, kind: kind_named("advisory-postgresql"))).to eq [:overlap]
    end

    it "grants a store without a memory what it forgets in a restart" do
      chronicle.downs << [ms(20), ms(40)]
      chronicle.oblivions << Torture::Chronicle::Oblivion.new(ms(20), ms(40), nil)
      both = [call("1", entered: 10, left: 100, ended: 101), call("2", asked: 30, entered: 50)]
      expect(finds(*both, kind: kind_named("memcached"))).to be_empty
    end
  end

  it "sees fences that do not grow" do
    expect(finds(call("1", entered: 10, fence: 7), call("2", entered: 30, fence: 6))).to eq [:fence]
  end

  describe "budgets" do
    it "sees a call that takes longer than its patience, one attempt and the margin" do
      expect(finds(call("1", wait: 0, ended: 549))).to be_empty
      expect(finds(call("1", wait: 0, ended: 551))).to eq [:budget]
    end

    it "sees it even if the server is silent, but grants the time of a stop" do
      chronicle.downs << [ms(0), ms(3_000)]
      expect(finds(call("1", wait: 0, ended: 551))).to eq [:budget]
      life("1").stops << [ms(100), ms(2_000)]
      expect(finds(call("1", wait: 0, ended: 2_049))).to be_empty
    end

    it "sees an interrupt that comes through too late, and a release that takes too long" do
      late = { interrupt: 100, outcome: :interrupted }
      expect(finds(call("1", **late, ended: 1_149))).to be_empty
      expect(finds(call("1", **late, ended: 1_151))).to eq [:budget]
      expect(finds(call("1", entered: 10, left: 20, ended: 1_071))).to eq [:budget]
    end

    it "expects calls without a budget to keep their time only if nothing is wrong" do
      locker = kind_named("locker-mariadb")
      expect(finds(call("1", wait: 0, ended: 551), kind: locker)).to eq [:budget]
      chronicle.downs << [ms(0), ms(100)]
      expect(finds(call("1", wait: 0, ended: 551), kind: locker)).to be_empty
    end
  end

  describe "a key that is free" do
    # One call holds the key first. Then the key is free until the second call enters, which has
    # been waiting since before the first call entered.
    def waits_until(moment, **holder)
      [call("1", entered: 10, **holder), call("2", asked: 5, entered: moment)]
    end

    it "sees a waiter that does not get it" do
      expect(finds(*waits_until(1_500))).to be_empty
      expect(finds(*waits_until(1_560))).to eq [:late]
    end

    it "sees one that gives up, and tells for how long it waited at most" do
      witness = judge(call("1", entered: 10), call("2", asked: 5, ended: 3_005))
      expect(witness.kinds).to eq [:late]
      expect(witness.longest_wait).to be_within(ms(110)).of(ms(2_900))
    end

    it "sees it also while others are refused, and ask for several keys at once" do
      refused = (1..30).map { |n| call("3", wait: 0, asked: n * 90, ended: (n * 90) + 5) }
      both = call("3", :acquire_all, asked: 20, ended: 3_020)
      expect(
        finds(call("1", entered: 10), *refused, both, call("2", asked: 5, ended: 3_005))
      ).to eq [:late]
    end

    it "counts the time of a lease whose holder died, and not more" do
      died("1", 20)
      dead = { left: nil, ended: nil, outcome: nil }
      expect(finds(*waits_until(2_000, **dead))).to be_empty
      expect(finds(*waits_until(2_200, **dead))).to eq [:late]
    end

    it "does not count that time if a lock ends with its connection" do
      died("1", 20)
      dead = { left: nil, ended: nil, outcome: nil, ttl: 5_000, valid_until: 5_000 }
      expect(
        finds(*waits_until(2_000, **dead), kind: kind_named("advisory-postgresql"))
      ).to be_empty
      expect(finds(*waits_until(2_200, **dead), kind: kind_named("advisory-postgresql"))).to eq [
        :late
      ]
    end

    it "does not count a lock that ends with its connection until its dead holder was reaped" do
      died("1", 20)
      life("1").died = ms(80)
      dead = call("1", entered: 10, left: nil, ended: nil, outcome: nil, ttl: 500, valid_until: 500)
      later = call("2", asked: 30, entered: 40, left: 50, ended: 51)
      expect(finds(dead, later, kind: kind_named("advisory-mariadb"))).to be_empty
      expect(finds(dead, later)).to include(:overlap)
    end

    it "counts the lease that an interrupted call leaves behind if nothing else was wrong" do
      left = call("1", interrupt: 100, outcome: :interrupted, ended: 100, ttl: 20_000)
      expect(finds(left, call("2", asked: 5, ended: 3_005))).to eq [:late]
    end

    it "grants a server that is silent, and a waiter that is stopped or cut off" do
      chronicle.downs << [ms(200), ms(600)]
      expect(finds(*waits_until(2_900))).to be_empty
      chronicle.downs.clear
      life("2").stops << [ms(700), ms(900)]
      expect(finds(*waits_until(2_800))).to be_empty
    end

    it "grants the place of a waiter that died in line for as long as it counts, and no longer" do
      died("3", 100)
      dead = call("3", asked: 4, ended: nil, outcome: nil)
      waiter = call("2", asked: 5, wait: 9_000, entered: 5_800)
      expect(finds(call("1", entered: 10), dead, waiter)).to be_empty
      waiter = call("2", asked: 5, wait: 9_000, entered: 6_300)
      expect(finds(call("1", entered: 10), dead, waiter)).to eq [:late]
    end
  end

  describe "rows that are left" do
    # A row of this call that still exists after all workers have ended.
    def row_left_by(call)
      chronicle.held["t#{call.life}x#{call.lane}x#{call.number}"] = ms(20_000)
      call
    end

    it "sees a row of a call that came back long before its process ended" do
      died("1", 10_000)
      expect(finds(row_left_by(call("1", entered: 10)))).to eq [:leak]
    end

    it "grants one whose process ended soon, and one that never came back" do
      died("1", 1_000)
      expect(finds(row_left_by(call("1", entered: 10)))).to be_empty
      expect(
        finds(row_left_by(call("1", entered: 10, left: nil, ended: nil, outcome: nil)))
      ).to be_empty
    end
  end

  it "sees a call that fails if nothing is wrong, and grants it otherwise" do
    failed = call("1", wait: 0, ended: 10, outcome: :failed, asked: 0)
    expect(finds(failed)).to eq [:failure]
    life("3").stops << [ms(-500), ms(-400)]
    expect(finds(failed)).to be_empty
  end

  it "sees an error of Active Record if no call was interrupted" do
    failures = {
      "t1x0x1" => "NoMethodError: undefined method", "t2x0x1" => "NoMethodError: undefined method"
    }
    chronicle.downs << [ms(0), ms(10)]
    failed = { wait: 0, ended: 10, outcome: :failed }
    locker = kind_named("locker-postgresql")
    expect(finds(call("1", **failed), kind: locker, failures: failures)).to be_empty
    expect(finds(call("2", **failed), kind: locker, failures: failures)).to eq [:error]
  end

  describe Torture::Stores::LockerProduct::Row do
    it "counts until its time is over, and then as long as its block goes on" do
      now = Torture::Clock.now
      row = described_class.new(0, 1, now, 0.1)
      expect(row).to be_valid
      first = row.valid_until
      sleep 0.02 while (row.valid_until == first) && Torture::Clock.now < now + Torture::SECOND
      expect(row.valid_until).to be > first
    end

    it "does not count what its process was stopped for" do
      row = described_class.new(0, 1, Torture::Clock.now, 0.1)
      before = row.valid_until
      sleep 0.4
      expect(row.valid_until).to eq before
    end
  end
end
