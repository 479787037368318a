# frozen_string_literal: true

require "spec_helper"
require_relative "adapters"
require_relative "witness"

RSpec.describe Torture do
  ms = Torture::MILLISECOND

  describe Torture::Witness do
    let(:chronicle) do
      Torture::Chronicle.new.tap { |c| %w[1 2].each { |name| c.born(name, 0, 0) } }
    end

    # Times are in milliseconds. A call that enters has a lease of 500 ms, and leaves after 10 ms.
    def call(worker, way = :acquire, **facts)
      facts = {
        key: 0, asked: 0, wait: 1_000, ttl: 500, outcome: facts[:entered] ? :done : :refused
      }.merge(facts)
      if (entered = facts[:entered])
        facts = {
          fence: entered, at_first: entered + 500, valid_until: entered + 500, left: entered + 10,
          ended: entered + 11
        }.merge(facts)
      end
      plain = %i[key fence outcome handed adopts lost lane number]
      facts =
        facts.to_h do |name, value|
          [name, value.nil? || plain.include?(name) ? value : value * Torture::MILLISECOND]
        end
      facts = { lane: "0", number: 1 }.merge(facts)
      Torture::Call.new(life: worker, way: Torture::WAYS.find { |one| one.name == way }, **facts)
    end

    def finds(*calls, gaps: {})
      delays = Torture::Delays.new
      gaps.each { |name, spans| spans.each { |span| delays.add(name, *span) } }
      history =
        Torture::History.new(
          calls: calls,
          chronicle: chronicle,
          delays: delays,
          findings: [],
          counts: {}
        )
      described_class.new(history).judge.kinds
    end

    def died(worker, at) =
      chronicle.lives[worker].then { |life| life.died = life.killed = at * Torture::MILLISECOND }

    it "finds nothing in calls that went well" do
      served = [call("1", entered: 10, queued: 5), call("2", asked: 8, entered: 25, queued: 9)]
      expect(finds(*served, call("1", asked: 30, ended: 1_031))).to be_empty
    end

    it "sees two valid leases at the same time" do
      expect(finds(call("1", entered: 10), call("2", entered: 15))).to eq [:overlap]
    end

    it "sees it even if the holder is not the last one that entered" do
      long, short, late =
        call("1", entered: 10, left: 300),
        call("2", entered: 20, valid_until: 20),
        call("2", entered: 200)
      expect(finds(long, short, late)).to eq [:overlap]
    end

    it "lets a lease end with its time, or with its holder" do
      died("1", 20)
      expect(
        finds(call("1", entered: 10, left: nil, ended: nil), call("2", entered: 25))
      ).to be_empty
      expect(
        finds(call("2", entered: 10, left: 700, ended: 701), call("2", entered: 515))
      ).to be_empty
    end

    it "sees it if the holder dies too late" do
      died("1", 30)
      expect(finds(call("1", entered: 10, left: nil, ended: nil), call("2", entered: 25))).to eq [
        :overlap
      ]
    end

    it "sees fences that do not grow, or are the same" do
      expect(finds(call("1", entered: 10, fence: 7), call("2", entered: 25, fence: 6))).to eq [
        :fence
      ]
      expect(finds(call("1", entered: 10, fence: 7), call("2", entered: 25, fence: 7))).to eq [
        :fence
      ]
    end

    it "does not mind the fence of a call that entered after its lease had expired" do
      late = call("2", entered: 25, fence: 6, at_first: 24, valid_until: 24)
      expect(finds(call("1", entered: 10, fence: 7), late)).to be_empty
    end

    it "sees a call that takes longer than its patience" do
      expect(finds(call("1", ended: 1_049))).to be_empty
      expect(finds(call("1", ended: 1_051))).to eq [:budget]
    end

    it "grants one attempt, and what the process was stopped or busy for" do
      expect(finds(call("1", wait: 0, ended: 249))).to be_empty
      expect(
        finds(call("1", ended: 1_151), gaps: { "1" => [[1_010 * ms, 1_130 * ms, 110 * ms]] })
      ).to be_empty
      chronicle.lives["1"].stops << [500 * ms, 2_000 * ms]
      expect(finds(call("1", ended: 2_049))).to be_empty
      expect(finds(call("1", ended: 2_051))).to eq [:budget]
    end

    it "grants the stall of a processor, but not twice the part that the worker saw" do
      both = {
        "1" => [[1_010 * ms, 1_130 * ms, 110 * ms]],
        "processor1" => [[1_005 * ms, 1_130 * ms, 115 * ms]]
      }
      expect(finds(call("1", ended: 1_160), gaps: both)).to be_empty
      both["processor0"] = [[1_130 * ms, 1_140 * ms, 10 * ms]]
      expect(finds(call("1", ended: 1_170), gaps: both)).to be_empty
      both.delete("processor0")
      expect(finds(call("1", ended: 1_170), gaps: both)).to eq [:budget]
      expect(
        finds(call("1", ended: 1_170), gaps: { "2" => [[1_000 * ms, 1_170 * ms, 170 * ms]] })
      ).to eq [:budget]
    end

    it "does not grant the time in which the process was busy before, or only waited" do
      expect(
        finds(call("1", ended: 1_151), gaps: { "1" => [[100 * ms, 300 * ms, 200 * ms]] })
      ).to eq [:budget]
      expect(finds(call("1", ended: 1_151), gaps: { "1" => [[1_010 * ms, 1_130 * ms, 0]] })).to eq [
        :budget
      ]
    end

    it "sees an interrupt that comes through too late, and patience that is cut short" do
      expect(finds(call("1", interrupt: 100, outcome: :interrupted, ended: 160))).to eq [:budget]
      chronicle.lives["1"].stops << [20 * ms, 50 * ms]
      expect(finds(call("1", interrupt: 100, outcome: :interrupted, ended: 179))).to be_empty
      expect(finds(call("1", interrupt: 100, outcome: :interrupted, ended: 181))).to eq [:budget]
      expect(finds(call("1", ended: 900))).to eq [:impatience]
    end

    it "sees a release that takes too long" do
      expect(finds(call("1", entered: 10, left: 20, ended: 580))).to eq [:budget]
    end

    describe "order" do
      it "sees a call that asked after another was queued, and was served before it" do
        expect(finds(call("1", queued: 5, entered: 100), call("2", asked: 6, entered: 50))).to eq [
          :order
        ]
        expect(
          finds(call("1", queued: 5, entered: 100), call("2", asked: 4, entered: 50))
        ).to be_empty
      end

      it "sees it even if the waiter got nothing in the end" do
        expect(finds(call("1", queued: 5, ended: 1_001), call("2", asked: 6, entered: 999))).to eq [
          :order
        ]
        expect(
          finds(call("1", queued: 5, ended: 1_005), call("2", asked: 6, entered: 1_001))
        ).to be_empty
      end

      it "does not speak for a waiter that was stopped, cut off or died" do
        overtaken = [call("1", queued: 5, entered: 100), call("2", asked: 6, entered: 50)]
        expect(finds(call("1", queued: 5, outcome: nil), overtaken[1])).to be_empty
        %i[stops cuts].each do |list|
          spans = chronicle.lives["1"].public_send(list)
          spans << [20 * ms, 30 * ms]
          expect(finds(*overtaken)).to be_empty
          spans.clear
        end
        chronicle.lives["2"].stops << [20 * ms, 30 * ms]
        expect(finds(*overtaken)).to eq [:order]
        chronicle.downs << [20 * ms, 30 * ms]
        expect(finds(*overtaken)).to be_empty
      end
    end

    describe "of what several may hold" do
      it "lets as many in as there are permits, and sees one more" do
        three = [10, 12, 14].map { |at| call("1", :semaphore, entered: at, left: 100, ended: 101) }
        expect(finds(*three, call("2", :semaphore, entered: 120, left: 130))).to be_empty
        expect(finds(*three, call("2", :semaphore, entered: 20, left: 30))).to eq [:overlap]
      end

      it "lets readers in together, and sees a writer beside any other call" do
        readers = [10, 12].map { |at| call("1", :read, entered: at, left: 100, ended: 101) }
        expect(finds(*readers, call("2", :write, entered: 105, left: 110, ended: 111))).to be_empty
        expect(finds(*readers, call("2", :write, entered: 90, left: 95, ended: 96))).to eq [
          :overlap
        ]
        expect(
          finds(call("1", :write, entered: 10, left: 50), call("2", :write, entered: 40, left: 45))
        ).to eq [:overlap]
        expect(
          finds(call("1", :write, entered: 10, left: 50), call("2", :read, entered: 40, left: 45))
        ).to eq [:overlap]
      end

      it "counts a writer as a reader from when it asked to be one" do
        writer = call("1", :write, entered: 10, left: 100, ended: 101, downgraded: 50)
        expect(finds(writer, call("2", :read, entered: 51, left: 60))).to be_empty
        expect(finds(writer, call("2", :read, entered: 49, left: 60))).to eq [:overlap]
        expect(finds(writer, call("2", :write, entered: 51, left: 60))).to eq [:overlap]
      end

      it "sees fences that do not grow from a call that had left to one that asked then" do
        first = call("1", :read, entered: 10, fence: 7)
        expect(finds(first, call("2", :read, asked: 15, entered: 25, fence: 6))).to be_empty
        expect(finds(first, call("2", :read, asked: 22, entered: 25, fence: 6))).to eq [:fence]
        expect(finds(first, call("2", :read, asked: 15, entered: 25, fence: 7))).to eq [:fence]
      end

      it "does not mind the order in which waiters enter that are called together" do
        waiter = call("1", :read, queued: 5, entered: 200)
        expect(finds(waiter, call("2", :read, asked: 6, entered: 50))).to be_empty
        expect(
          finds(
            call("1", :read, queued: 5, entered: 305),
            call("2", :read, asked: 6, entered: 50, left: 60, ended: 60)
          )
        ).to eq [:order]
      end
    end

    it "sees a once that was done twice" do
      first = call("1", :once, entered: 10, left: 20, ended: 21)
      expect(finds(first, call("2", :once, asked: 690, entered: 701))).to be_empty
      expect(finds(first, call("2", :once, asked: 690, entered: 699))).to eq [:twice]
      expect(
        finds(call("1", :once, entered: 10, outcome: :oops), call("2", :once, entered: 100))
      ).to be_empty
    end

    # The server forgot this key between from and to, in milliseconds. Without a key, it forgot
    # all keys.
    def forgets(from, to, key = nil)
      span = [from, to].map { |at| at * Torture::MILLISECOND }
      chronicle.oblivions << Torture::Chronicle::Oblivion.new(*span, key)
    end

    describe "of a server that is well" do
      it "sees a call that failed, an extension and a release" do
        expect(finds(call("1", outcome: :failed, ended: 200))).to eq [:failure]
        expect(finds(call("1", entered: 10, unextended: 15))).to eq [:failure]
        expect(finds(call("1", entered: 10, unreleased: 20))).to eq [:unreleased]
      end

      it "grants it to a caller that something was done to, or that could not run" do
        calls = [call("1", outcome: :failed, ended: 200), call("1", entered: 10, unreleased: 20)]
        expect(finds(*calls, gaps: { "1" => [[5 * ms, 150 * ms, 110 * ms]] })).to be_empty
        chronicle.darks[0] << [-500 * ms, -400 * ms]
        expect(finds(*calls)).to be_empty
        chronicle.darks.clear
        chronicle.slow << [15 * ms, 80 * ms]
        expect(finds(*calls)).to be_empty
      end

      it "sees a lane that is hardly ever served beside others that are" do
        busy = Array.new(300) { |i| call("1", :wide, entered: i, lane: "0") }
        rare = call("1", :wide, entered: 10, fence: 5_000, lane: "1")
        expect(finds(*busy, rare)).to eq [:starved]
        fair = Array.new(30) do |i|
          call("1", :wide, entered: i, fence: 5_000 + i, asked: i, lane: "1")
        end
        expect(finds(*busy, *fair)).to be_empty
      end

      it "sees a waiter that never was in the queue" do
        expect(finds(call("1", wait: 3_000, ended: 3_001))).to eq [:unheard]
        expect(finds(call("1", wait: 3_000, ended: 3_001, seen: 5, queued: 5))).to be_empty
        expect(finds(call("1", wait: 1_500, ended: 1_501))).to be_empty
      end
    end

    describe "of a lease" do
      it "sees that it was told to be lost although it was not" do
        lost = call("1", entered: 10, lost: [[15 * ms, 510 * ms]])
        expect(finds(lost)).to eq [:lost]
        expect(finds(call("1", entered: 10, lost: [[511 * ms, 510 * ms]]))).to be_empty
        # a call of once has no lease
        expect(finds(call("1", :once, entered: 10, lost: [[15 * ms, 510 * ms]]))).to be_empty
        forgets(12, 13)
        expect(finds(lost)).to be_empty
      end

      it "does not count it from then on" do
        lost = call("1", entered: 10, left: 400, ended: 400, lost: [[15 * ms, 510 * ms]])
        expect(finds(lost, call("2", entered: 20))).to eq [:lost]
        expect(finds(lost, call("2", entered: 12))).to eq %i[lost overlap]
      end

      it "sees that it is still there after it was released, or undone" do
        expect(finds(call("1", entered: 10, held: 1_500))).to be_empty
        expect(finds(call("1", entered: 10, held: 1_600))).to eq [:held]
        expect(finds(call("1", outcome: :failed, ended: 200, lost: [], held: 1_800))).to eq [:held]
      end

      it "grants it for as long as the server could not be reached" do
        chronicle.darks[0] << [15 * ms, 3_000 * ms]
        expect(finds(call("1", entered: 10, unreleased: 20, held: 4_400))).to be_empty
        expect(finds(call("1", entered: 10, unreleased: 20, held: 4_600))).to eq [:held]
      end

      it "does not ask it of a process that was killed" do
        died("1", 100)
        expect(finds(call("1", entered: 10, held: 1_600))).to be_empty
      end

      it "sees a waiter that left its record in the queue" do
        expect(finds(call("1", queued: 5, ended: 1_001, waited: 2_400))).to be_empty
        expect(finds(call("1", queued: 5, ended: 1_001, waited: 2_600))).to eq [:ghost]
      end
    end

    describe "of a dump" do
      it "sees that it was adopted twice" do
        first = call("1", entered: 10, fence: 7, handed: true)
        one = call("1", :adopt, wait: 0, adopts: 7, fence: 8, entered: 40)
        other = call("2", :adopt, wait: 0, adopts: 7, fence: 9, entered: 60)
        expect(finds(first, one, other)).to eq [:adopted]
        refused = call("2", :adopt, wait: 0, adopts: 7, asked: 59, ended: 60)
        expect(finds(first, one, refused)).to be_empty
      end

      it "grants an adoption the time for one command, and no more" do
        first = call("1", entered: 10, fence: 7, handed: true)
        slow = { wait: 0, adopts: 7, outcome: :failed, lost: [] }
        expect(finds(first, call("1", :adopt, **slow, ended: 549))).to be_empty
        expect(finds(first, call("1", :adopt, **slow, ended: 551))).to eq [:budget]
      end

      it "sees that its fence did not grow" do
        first = call("1", entered: 10, fence: 7, handed: true)
        adopted = call("1", :adopt, wait: 0, adopts: 7, fence: 7, entered: 40)
        expect(finds(first, adopted)).to eq [:fence]
      end
    end

    describe "of a server that forgets" do
      it "lets in another beside one that it has forgotten, but no two after that" do
        forgets(12, 13)
        before = call("1", entered: 10, left: 300)
        after = call("2", asked: 14, entered: 20, left: 200)
        expect(finds(before, after)).to be_empty
        expect(finds(before, after, call("2", asked: 14, entered: 30))).to eq [:overlap]
      end

      it "knows nothing of the life of a child that was forked" do
        forgets(12, 13)
        one, other = call("1c0", :once, entered: 10), call("2", :once, asked: 14, entered: 20)
        expect(finds(one, other)).to be_empty
      end

      it "still lets them be told apart by their fences" do
        forgets(12, 13)
        late = call("2", asked: 100, entered: 120, fence: 9)
        expect(finds(call("1", entered: 10, fence: 10, left: 300), late)).to eq [:fence]
      end

      it "does not forget the holder with the queue or the companion alone" do
        forgets(12, 13, 0)
        calls = [call("1", entered: 10, left: 300), call("2", asked: 14, entered: 20)]
        expect(finds(*calls)).to eq [:overlap]
      end

      it "counts the permits that were given since" do
        forgets(40, 41)
        old = [10, 12, 14].map { |at| call("1", :semaphore, entered: at, left: 300, ended: 301) }
        new = [110, 112, 114].map do |at|
          call("2", :semaphore, asked: 100, entered: at, left: 290, ended: 291)
        end
        expect(finds(*old, *new)).to be_empty
        fourth = call("2", :semaphore, asked: 100, entered: 116)
        expect(finds(*old, *new, fourth)).to eq [:overlap]
      end

      it "sees a waiter that does not look by itself" do
        forgets(100, 101)
        waiter = call("1", wait: 5_000, queued: 5, entered: 4_000)
        early = call("2", asked: 1_300, entered: 1_310)
        late = call("2", asked: 1_400, entered: 1_410)
        expect(finds(waiter, early)).not_to include(:order)
        expect(finds(waiter, late)).to include(:order)
      end

      it "sees a key that is free for more than a second while some wait" do
        forgets(15, 16)
        last = call("1", entered: 10)
        late = call("2", asked: 5, wait: 5_000, queued: 8, entered: 1_400)
        expect(finds(last, late)).to eq [:idle]
        soon = call("2", asked: 5, wait: 5_000, queued: 8, entered: 1_200)
        expect(finds(last, soon)).to be_empty
      end
    end

    it "expects no idle lock while its holder waits for another one" do
      calls = [
        call("1", entered: 10), call("2", asked: 5, queued: 8, entered: 300),
        call("1", :acquire_all, asked: 15, wait: 260, ended: 290)
      ]
      expect(finds(*calls)).to be_empty
    end

    it "sees a lock without a holder while a call is queued" do
      calls = [call("1", entered: 10), call("2", asked: 5, queued: 8, entered: 300)]
      expect(finds(*calls)).to eq [:idle]
      died("1", 15)
      expect(finds(*calls)).to be_empty
    end
  end

  it "decides the same again with the same seed, and otherwise with another" do
    decisions = ->(seed) do
      described_class::COURSES.values.map do |course|
        random = described_class.random(seed, "1", 0)
        blows = described_class::Blows.new(described_class.random(seed, :driver), course)
        Array.new(100) do
          [described_class::Plan.draw(random, described_class::WAYS, course), blows.draw]
        end
      end
    end
    expect(decisions[1]).to eq decisions[1]
    expect(decisions[1]).not_to eq decisions[2]
  end

  it "takes turns over the courses by the seed" do
    seeds = 0...(2 * (described_class::NAMES.size - 1))
    courses = seeds.map { |seed| described_class::Course.of(seed).name }
    expect(courses.uniq).to match_array(described_class::NAMES)
    expect(courses.each_slice(2).map(&:first).uniq).to eq [:rough]
  end

  it "does not take what is done once for a child's" do
    turn = Torture::Product::Turn.new(0, Process.pid)
    expect([turn.valid?, in_child { turn.valid? }]).to eq [true, false]
  end

  describe "run.rb", needs: "redis-server" do
    def findings(adapter)
      program = "#{__dir__}/run.rb"
      options = ["--seconds", "4", "--seed", "1", "--course", "rough", "--adapter", adapter]
      output, status = ruby("load #{program.dump}", "--", *options, within: 60)
      expect(status.exitstatus).to eq(1), output
      output.scan(/^  ([A-Z]+): \d+$/).flatten
    end

    # UNHEARD is left out, because it only repeats that this lock has no queue in which a waiter
    # could be seen. BUDGET is left out, because a call may begin an attempt just before its wait
    # ends. If the server cannot be reached at that moment, the attempt ends too late.
    it "sees that a lock without a queue serves in any order, and nothing else in it", :slow do
      expect(findings("polling") - %w[BUDGET UNHEARD]).to eq %w[ORDER]
    end

    it "sees that a release without a look at the owner lets two in", :slow do
      expect(findings("no_owner_check")).to include("OVERLAP")
    end

    it "sees that fences from a plain clock do not grow", :slow do
      expect(findings("clock_fence")).to include("FENCE")
    end
  end
end
