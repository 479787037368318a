# frozen_string_literal: true

require "spec_helper"
require "support/sidekiq_jobs"

# The fate of a job whose key is held.
RSpec.describe "A Sidekiq job that meets with a conflict" do
  include_context "with Sidekiq"

  def conflict(**options)
    job_class(key: "k", **options)
    @jid = SomeJob.perform_async(5)
    Plock.acquire("k", label: "another job") { block_given? ? yield : @errors = work_all }
  end

  def event = events.last.to_h.slice(:name, :job, :job_id, :label, :holder)

  def expected_event(name)
    { name: name, job: "SomeJob", job_id: @jid, label: "SomeJob #{@jid}", holder: "another job" }
  end

  describe "with :reschedule" do
    it "comes back: after a second, and later and later" do
      conflict(on_conflict: :reschedule) do
        delays = Array.new(4) do
          before = Time.now.to_f
          expect(work_all).to be_empty
          delay = events.last.details[:delay]
          expect(scheduled.first.at.to_f).to be_between(before + delay, Time.now.to_f + delay)
          poll
          delay
        end
        expect(delays.first).to be_between(1, 1.25)
        expect(delays.each_cons(2).map { |a, b| b / a }).to all(be > 1.4)
        expect(work_all).to be_empty
      end
      poll
      expect(work_all).to be_empty
      expect(done).to eq([["SomeJob", 5]])
      expect(scheduled.size).to eq(0)
    end

    it "stays the same job, and is told of" do
      conflict
      expect(scheduled.first).to have_attributes(
        jid: @jid, klass: "SomeJob", args: [5], queue: "default"
      )
      expect(event).to eq(expected_event(:job_rescheduled))
      expect(events.last.details[:delay]).to be_between(1, 1.25)
      expect(events.last.key_digest).to eq(Plock.status("k").store_key[/\h+\z/])
      postponed = /plock: SomeJob #{@jid} put off for 1\.\d s \(conflict 1\)/
      holder = /"k" is held since .* label "another job"/
      expect(log).to match(/class=SomeJob jid=#{@jid}.* INFO: #{postponed}: #{holder}/)
    end

    it "is raised after max_conflicts:, for Sidekiq to try again" do
      conflict(max_conflicts: 2) do
        2.times do
          expect(work_all).to be_empty
          poll
        end
        expect(work_all).to contain_exactly(
          be_a(Plock::Guard::Conflict).and(have_attributes(conflicts: 3, key: "k", job_id: @jid))
        )
      end
      expect(event).to eq(expected_event(:job_refused))
      expect([scheduled.size, retries.size]).to eq([0, 1])
      poll
      expect(work_all).to be_empty
      expect(done.size).to eq(1)
    end

    it "raises where another middleware would not let it come back" do
      stop = stub_const("Stop", Class.new { def call(_, item, *) = item["at"] ? nil : yield })
      Sidekiq.default_configuration.client_middleware.add(stop)
      conflict
      expect(@errors).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
      expect(retries.size).to eq(1)
    ensure
      Sidekiq.default_configuration.client_middleware.remove(stop)
    end
  end

  it "is Sidekiq's to try again, with :retry" do
    conflict(on_conflict: :retry)
    expect(@errors.first).to be_a(Plock::Guard::Conflict).and have_attributes(
      key: "k",
      job_class: "SomeJob",
      job_id: @jid,
      conflicts: 1,
      code: :conflict
    )
    expect(@errors.first.status.label).to eq("another job")
    expect(retries.first["error_class"]).to eq("Plock::Guard::Conflict")
    expect(event).to eq(expected_event(:job_refused))
  end

  it "is dropped, and that is told, with :discard" do
    conflict(on_conflict: :discard)
    expect(@errors).to be_empty
    expect([queue.size, scheduled.size, retries.size, dead.size]).to eq([0, 0, 0, 0])
    expect(event).to eq(expected_event(:job_discarded))
    expect(log).to match(/jid=#{@jid}.* WARN: plock: SomeJob #{@jid} dropped: "k" is held since/)
  end

  describe "with a callable" do
    it "is left to it" do
      heard = []
      conflict(on_conflict: ->(conflict) {
        heard << [conflict.class, conflict.job_id, conflict.status.label]
        nil
      })
      expect(heard).to eq([[Plock::Guard::Conflict, @jid, "another job"]])
      expect([queue.size, scheduled.size, retries.size]).to eq([0, 0, 0])
      expect(event).to eq(expected_event(:job_handled))
    end

    it "does what it answers" do
      answers = %i[reschedule retry discard]
      conflict(on_conflict: ->(_) { answers.shift }) do
        expect(work_all).to be_empty
        expect(scheduled.size).to eq(1)
        poll
        expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
        poll
        expect(work_all).to be_empty
      end
      expect(events.map(&:name)).to eq(%i[job_rescheduled job_refused job_discarded])
    end

    it "may raise what it likes" do
      conflict(on_conflict: ->(conflict) { raise conflict })
      expect(@errors).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
    end
  end

  it "runs if the holder of the key is gone when the job looks it up" do
    job_class(key: "k", on_conflict: :discard)
    SomeJob.perform_async
    lease = Plock.acquire("k")
    gone = Plock::Status.new("k", lease.store_key, nil)
    allow(Plock).to receive(:acquire).and_wrap_original do |original, *arguments, **options, &block|
      original.call(*arguments, **options, &block)
    rescue Plock::TimeoutError
      lease.release
      raise Plock::TimeoutError.new("refused", status: gone)
    end
    expect(work_all).to be_empty
    expect(done).to eq([["SomeJob"]])
  end
end
