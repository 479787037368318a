# frozen_string_literal: true

require "spec_helper"
require "plock/store/support/turn"

RSpec.describe Plock::Store::Turn do
  subject(:turn) { described_class.new }

  it "lets a thread sleep until a call" do
    sleeper = await_sleep(background { turn.await(5) })
    turn.call
    expect(sleeper.value).to be(true)
  end

  it "remembers one call" do
    2.times { turn.call }
    expect([turn.await(5), turn.await(0)]).to eq([true, false])
  end

  it "goes on to wait if it wakes early" do
    sleeper = await_sleep(background { turn.await(5) })
    sleeper.wakeup
    expect(sleeper.join(0.05)).to be_nil
    turn.call
    expect(sleeper.value).to be(true)
  end

  it "ends in time without a call" do
    began_at = Plock::Clock.now
    expect(turn.await(0.05)).to be(false)
    expect(Plock::Clock.now - began_at).to be >= 0.05
  end
end
