# frozen_string_literal: true

require "parse/lock"

RSpec.describe Parse::Lock::ClaimedMutex do
  subject(:mutex) { described_class.new }

  let(:claim) { Object.new }
  let(:other) { Object.new }

  describe "#take and #give_back" do
    it "give it to one claim at a time" do
      expect(mutex.take(claim, 0)).to be(true)
      expect(mutex.take(other, 0)).to be(false)
      mutex.give_back(claim)
      expect(mutex.take(other, 0)).to be(true)
    end

    it "wait no longer than patience lasts", :timing do
      mutex.take(claim, 0)
      for_as_long_as(0.1) { expect(mutex.take(other, 0.1)).to be(false) }
    end

    it "wait for the one who has it" do
      mutex.take(claim, 0)
      waiter = background { mutex.take(other, 20) }
      await_sleep(waiter)
      mutex.give_back(claim)
      expect(waiter.value).to be(true)
    end

    it "take nothing away from another claim" do
      mutex.take(claim, 0)
      mutex.give_back(other)
      expect(mutex).to be_locked
    end

    it "give it to the waiters in their order" do
      mutex.take(claim, 0)
      order = Queue.new
      waiters = Array.new(4) do |i|
        own = Object.new
        await_sleep(background { mutex.take(own, 20) && order.push(i) && mutex.give_back(own) })
      end
      mutex.give_back(claim)
      waiters.each(&:join)
      expect(Array.new(4) { order.pop }).to eq([0, 1, 2, 3])
    end

    it "do not lose the news when the one who was woken is killed" do
      50.times do
        mutex.take(claim, 0)
        own = Object.new
        first = background do
          mutex.take(own, 20)
        ensure
          mutex.give_back(own)
        end
        await_sleep(first)
        second = await_sleep(background { mutex.take(other, 20) })
        mutex.give_back(claim)
        first.kill # before or after it has used its turn
        expect(second.join(5)&.value).to be(true)
        mutex.give_back(other)
      end
    end

    it "let other fibers of the thread run meanwhile", :fibers do
      steps = []
      Sync do |task|
        mutex.take(claim, 0)
        waiter = task.async { mutex.take(other, 20) && steps << :taken }
        steps << :waits
        mutex.give_back(claim)
        waiter.wait
      end
      expect(steps).to eq(%i[waits taken])
    end

    it "end in time under a scheduler, too", :fibers, :timing do
      mutex.take(claim, 0)
      for_as_long_as(0.1) { Sync { expect(mutex.take(other, 0.1)).to be(false) } }
    end
  end

  it "is free when the thread that took it has ended without giving it back" do
    Thread.new { mutex.take(claim, 0, blockless: true) }.join
    expect(mutex).not_to be_locked
    expect(mutex.take(other, 0)).to be(true)
    mutex.give_back(claim)
    expect(mutex).to be_locked
  end

  it "shows no claim" do
    mutex.take("the token", 0)
    expect(mutex.inspect).to eq("#<Parse::Lock::ClaimedMutex locked>")
  end
end
