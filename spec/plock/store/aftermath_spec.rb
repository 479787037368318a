# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"

# Time passes only in `pass_until`, which runs the task when it is due, as the scheduler would.
RSpec.describe Plock::Store::Database::Aftermath do
  let(:scheduler) do
    Class.new {
      attr_reader :task, :at

      def schedule(task, at)
        @task = task
        @at = at
      end

      def take = @at.tap { @at = nil }
    }.new
  end
  let(:looks) { [] }
  let(:settled) { [] }
  let(:present) { [] }

  subject!(:aftermath) do
    described_class.new(
      scheduler,
      ->(names) { (looks << [@now.round(3), names.size]) && (names.keys & present) },
      ->(_key, token) { settled << [@now.round(3), token] }
    )
  end

  before do
    @now = 0.0
    replace(Plock::Clock, :now, only: Thread.current) { @now }
  end

  def pass_until(time)
    while scheduler.at&.<= time
      @now = [@now, scheduler.take].max
      yield if block_given?
      aftermath.run
    end
    @now = time
  end

  it "looks with one statement for all that many interrupted calls may have left" do
    100.times { |number| aftermath.doubt("key", "token#{number}", true, 60.0) }
    pass_until(60.0)
    expect(looks).to eq([0.1, 0.25, 0.5, 1.0, 2.0].map { |at| [at, 100] })
    expect(settled).to be_empty
  end

  it "removes at once what was not removed before, and what comes later" do
    aftermath.doubt("key", "new", false, 60.0)
    aftermath.doubt("key", "known", true, 60.0)
    present << "known"
    pass_until(0.3) { present.clear if @now > 0.2 }
    expect(settled).to eq([[0.0, "new"], [0.1, "known"]])
  end

  it "repeats what fails, with growing pauses, until the lease would have expired" do
    attempts = []
    allow(settled).to receive(:<<) do
      attempts << @now
      raise Plock::UnavailableError.new("away", code: :io)
    end
    aftermath.doubt("key", "token", false, 3.0)
    pass_until(60.0)
    expect(attempts.size).to be_between(4, 8)
    expect(attempts.last).to be_between(0.5, 3.0)
    expect(scheduler.at).to be_nil
  end

  # During an outage, the operating system keeps resending a statement, and doubles the pause each
  # time. So the statement may reach the database long after the outage, although its connection is
  # closed.
  it "looks soon after an outage, and for twice as long as that lasted" do
    away = true
    allow(settled).to receive(:<<).and_wrap_original do |note, *arguments|
      away ? raise(Plock::UnavailableError.new("away", code: :io)) : note.call(*arguments)
    end
    aftermath.doubt("key", "token", false, 60.0)
    pass_until(60.0) do
      away = false if @now > 3.0
      # the statement arrives between the last two looks
      present << "token" if settled.any? && @now > settled.first.first * 2.7
    end
    back_at, late_at = settled.map(&:first)
    expect(back_at).to be_between(3.0, 6.0)
    expect(late_at).to be_within(0.01).of((back_at * 3) + 2.0) # both values are rounded
    expect(looks.map { |at, _| (at - back_at).round(2) }).to start_with(0.1, 0.25, 0.5, 1.0, 2.0)
  end

  it "keeps the pauses between its looks after an outage that begins later" do
    allow(looks).to receive(:<<).and_wrap_original do |note, *arguments|
      @now < 5.0 ? raise(Plock::UnavailableError.new("away", code: :io)) : note.call(*arguments)
    end
    aftermath.doubt("key", "token", true, 60.0)
    pass_until(60.0)
    first_at = looks.first.first
    expect(looks.map { |at, _| (at - first_at).round(2) }).to eq([0.0, 0.15, 0.4, 0.9, 1.9])
  end

  it "forgets in a forked child what its parent has to remove" do
    aftermath.doubt("key", "token", false, 60.0)
    replace(Process, :pid, only: Thread.current) { 0 }
    pass_until(60.0)
    expect(settled).to be_empty
  end
end
