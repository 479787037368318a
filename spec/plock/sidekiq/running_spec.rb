# frozen_string_literal: true

require "spec_helper"
require "support/busy_ruby"
require "support/sidekiq_jobs"

# Jobs that are guarded only while they run.
RSpec.describe "A Sidekiq job that is guarded while it runs" do
  include_context "with Sidekiq"
  include Support::BusyRuby

  it "has its key while it runs, and only then" do
    seen = done
    test = self
    job_class { |_id| seen << test.held }
    jid = SomeJob.perform_async(1)
    expect(held).to be_empty
    expect(queue.first.item).not_to have_key("plock")
    expect(work_all).to be_empty
    expect(done).to eq([["SomeJob #{jid}"]])
    expect(held).to be_empty
  end

  it "has class and arguments as its key, or what the key: says" do
    blockers = [["SomeJob", 1], ["SomeJob", 2]]
    job_class(key: ->(id, *) { "k:#{id}" }, on_conflict: :retry)
    2.times { |n| SomeJob.perform_async(n + 1, "more") }
    Plock.acquire("k:1") do
      expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
    end
    expect(done).to eq([[*blockers.last, "more"]])
  end

  it "excludes a job of another class that has the same key, and every other taker of that key" do
    job_class("One", key: "k", on_conflict: :retry)
    job_class("Two", key: ->(*) { "k" }, on_conflict: :retry)
    rest = self.rest
    job_class("Three", key: "k") { rest.call }
    Three.perform_async
    _, thread = in_thread
    One.perform_async
    Two.perform_async
    expect(Plock.try_acquire("k")).to be_nil
    expect(work_all.map(&:message)).to contain_exactly(
      /\AOne .*label "Three /, /\ATwo .*label "Three /
    )
    going << true
    thread.join
    poll
    expect(work_all).to be_empty
    expect(done).to contain_exactly(["One"], ["Two"])
  end

  it "does not exclude one of another class with the same arguments" do
    rest = self.rest
    job_class("One") { |_| rest.call }
    job_class("Two")
    One.perform_async(1)
    _, thread = in_thread
    Two.perform_async(1)
    expect(work_all).to be_empty
    expect(done).to eq([["Two", 1]])
    going << true
    thread.join
  end

  it "gives its key back when it fails, and has it again when it is tried again" do
    seen = done
    test = self
    job_class do
      seen << test.held.size
      raise "oops" if seen.size == 1
    end
    SomeJob.perform_async
    expect(work_all).to contain_exactly(have_attributes(message: "oops"))
    expect(held).to be_empty
    poll
    expect(work_all).to be_empty
    expect(done).to eq([1, 1])
    expect(held).to be_empty
  end

  it "waits for its key as long as it may" do
    job_class(key: "k", wait: 5)
    lease = Plock.acquire("k")
    SomeJob.perform_async
    worker = background { work_all }
    eventually { Plock.status("k").waiters.any? }
    lease.release
    expect(worker.value).to be_empty
    expect(done).to eq([["SomeJob"]])
  end

  it "renews its lease, however long it takes and whatever holds the GVL", :timing do
    test = self
    job_class(key: "k", ttl: 0.5) { test.hold_gvl(0.5) }
    SomeJob.perform_async
    expect(work_all).to be_empty
    expect(events).to be_empty
  end

  it "keeps its key for at_least:" do
    job_class(key: "k", at_least: 30)
    SomeJob.perform_async
    expect(work_all).to be_empty
    expect(Plock.status("k")).to have_attributes(held?: true, remaining: be_between(20, 30.1))
  end

  it "is inherited, with the subclass's own name in its key, and can be said otherwise" do
    base = job_class("Base", on_conflict: :retry)
    stub_const("Heir", Class.new(base))
    stub_const("Rebel", Class.new(base) { guard_with key: "k" })
    expect(Heir.plock_guard).to equal(Base.plock_guard)
    expect(Rebel.plock_guard.key).to eq("k")
    Heir.perform_async(1)
    expect(work_all).to be_empty
  end

  it "runs under a name that its class has got since it was pushed" do
    job_class("OldName", key: nil)
    OldName.perform_async(1)
    renamed = job_class("NewName")
    stub_const("OldName", renamed)
    Plock.acquire("job:NewName:#{Plock.digest("[1]")}") { work_all }
    expect(log).to match(/NewName \h{24} put off/)
    poll
    expect(work_all).to be_empty
    expect(done).to eq([["NewName", 1]])
  end

  describe "pushed back by a shutdown that has not ended its thread yet" do
    %i[reschedule discard retry].each do |on_conflict|
      it "waits for its old run, with on_conflict: #{on_conflict.inspect}" do
        rest, ran = rest_once, done
        job_class(on_conflict: on_conflict) { rest.call || ran << :again }
        jid = SomeJob.perform_async
        processor, thread = in_thread
        # pushes the job back, as Sidekiq's manager does before it kills the thread of the job
        capsule.fetcher.bulk_requeue([processor.job])
        expect(work_all).to be_empty
        expect(scheduled.map(&:jid)).to eq([jid])
        expect(due_in(scheduled)).to be_between(-9, 1.3)
        reason = /its own earlier run has not ended/
        postponed = /plock: SomeJob #{jid} put off for 1\.\d s \(#{reason}\)/
        expect(log).to match(/jid=#{jid}.* INFO: #{postponed}/)

        thread.raise(Sidekiq::Shutdown)
        thread.join
        expect(held).to be_empty
        poll
        expect(work_all).to be_empty
        expect(done).to eq([:again])
      end
    end

    it "is not blocked by its own guard when the thread has ended" do
      rest, ran = rest_once, done
      job_class(on_conflict: :discard) { rest.call || ran << :again }
      SomeJob.perform_async
      processor, thread = in_thread
      capsule.fetcher.bulk_requeue([processor.job])
      thread.raise(Sidekiq::Shutdown)
      thread.join
      expect(work_all).to be_empty
      expect(done).to eq([:again])
    end
  end

  describe "through perform_inline" do
    it "has its key" do
      seen = done
      test = self
      job_class { |_| seen << test.held.size }
      expect(SomeJob.perform_inline(1)).to be(true)
      expect(done).to eq([1])
    end

    it "tells its caller of a conflict, for there is nothing that would run it later" do
      job_class(key: "k")
      Plock.acquire("k") do
        expect { SomeJob.perform_inline }.to raise_error(
          Plock::Guard::Conflict, /cannot have its key: "k" is held/
        )
      end
      expect([scheduled.size, queue.size]).to eq([0, 0])
    end

    it "answers nil where a conflict means that it is dropped" do
      job_class(key: "k", on_conflict: :discard)
      Plock.acquire("k") { expect(SomeJob.perform_inline).to be_nil }
    end
  end
end
