# frozen_string_literal: true

require "spec_helper"

RSpec.describe "Plock::Interrupts.complete" do
  # Runs the cleanup, and returns how many times it ran. `error` is the error that the caller must
  # get afterwards; nil: none.
  def runs_of(error, &cleanup)
    runs = 0
    thread = background { Plock::Interrupts.complete { cleanup.call(runs += 1) } }
    error ? expect { thread.join }.to(raise_error(error)) : thread.join
    runs
  end

  it "runs a cleanup once, and gives its value" do
    expect(runs_of(nil) { nil }).to be 1
    expect(Plock::Interrupts.complete { :value }).to be :value
  end

  it "runs it once if an interrupt comes during it, which waits for its end" do
    ended = false
    runs = runs_of(IOError) do
      Thread.current.raise(IOError)
      ended = true
    end
    expect([runs, ended]).to eq [1, true]
  end

  it "runs it again if a signal handler raises, and then raises the exception" do
    expect(runs_of(IOError) { |run| raise IOError if run < 3 }).to be 3
    runs = 0
    catch(:out) { Plock::Interrupts.complete { (runs += 1) < 3 && throw(:out) } }
    expect(runs).to be 3
  end

  it "runs it 16 times at most" do
    expect(runs_of(IOError) { raise IOError }).to be 16
  end

  it "does not run it again after an Error of its own" do
    expect(runs_of(Plock::UnavailableError) { raise Plock::UnavailableError }).to be 1
  end

  it "raises the handler's exception if the second run fails" do
    expect(runs_of(IOError) { |run| raise run == 1 ? IOError : Plock::UnavailableError }).to be 2
  end

  it "runs it to its end if the thread was killed before, and is killed again" do
    runs = 0
    thread = background do
      sleep
    ensure
      Plock::Interrupts.complete do
        runs += 1
        Thread.current.kill
        raise IOError if runs == 1
      end
    end
    await_sleep(thread)
    thread.kill
    expect { thread.join }.to raise_error(IOError)
    expect(runs).to be 2
  end
end

RSpec.describe "Plock::Interrupts.defer" do
  # @return [Boolean] did the block end before the interrupt came?
  def ends_first?
    ended = false
    Plock::Interrupts.defer do
      Thread.current.raise(IOError)
      ended = true
    end
  rescue IOError
    ended
  end

  it "defers an interrupt until its block has ended" do
    expect(background { ends_first? }.value).to be true
  end

  it "gives the block's value" do
    expect(Plock::Interrupts.defer { :value }).to be :value
  end

  it "defers none under a Fiber scheduler", :fibers do
    expect(background { Sync { ends_first? } }.value).to be false
  end
end
