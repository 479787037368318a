# frozen_string_literal: true

require "spec_helper"
require "support/sidekiq_jobs"

# Jobs that will never run must release their leases.
RSpec.describe "A queued Sidekiq job that is not run" do
  include_context "with Sidekiq"

  def pushed(**sidekiq)
    job_class(during: :queued_and_running, sidekiq: sidekiq) { |*| raise "oops" }
    SomeJob.perform_async(1)
  end

  # Removes the job's class, because the release must not need it.
  def forget_class = hide_const("SomeJob")

  describe "that dies" do
    it "gives its key back when its retries are exhausted" do
      pushed(retry: 1)
      work_all
      expect(held.size).to eq(1)
      poll
      work_all
      expect([dead.size, held]).to eq([1, []])
    end

    [0, false].each do |retries|
      it "gives its key back with retry: #{retries.inspect}" do
        pushed(retry: retries)
        work_all
        expect(held).to be_empty
      end
    end

    it "gives its key back where its class is gone" do
      pushed(retry: 0)
      forget_class
      expect(work_all).to contain_exactly(an_instance_of(NameError))
      expect([dead.size, held]).to eq([1, []])
    end

    it "gives its key back if sidekiq_retries_exhausted or another death handler raises" do
      pushed(retry: 0)
      SomeJob.sidekiq_retries_exhausted { raise "a bug" }
      handlers = Sidekiq.default_configuration.death_handlers
      handlers.unshift(->(*) { raise "another bug" })
      work_all
      expect([dead.size, held]).to eq([1, []])
      expect(log).to match(/a bug/).and match(/another bug/)
    ensure
      handlers.shift
    end

    it "still keeps it taken for at_least:" do
      job_class(key: "k", during: :queued_and_running, at_least: 30, sidekiq: { retry: 0 }) do |*|
        raise "oops"
      end
      SomeJob.perform_async
      work_all
      expect(Plock.status("k").remaining).to be_between(20, 30.1)
    end

    it "asks for its key again when it is brought back from the dead" do
      job_class("SomeJob", key: "k", during: :queued_and_running, sidekiq: { retry: 0 }) do |*|
        raise "oops"
      end
      SomeJob.perform_async
      work_all
      seen = done
      test = self
      job_class(key: "k", during: :queued_and_running) { seen << test.held.size }
      dead.first.retry
      expect(work_all).to be_empty
      expect([done, held]).to eq([[1], []])
    end
  end

  it "gives its key back when it is deleted from its queue" do
    pushed
    forget_class
    expect(queue.first.delete).to be(true)
    expect(held).to be_empty
  end

  it "does not if another process was quicker, because the job is then running" do
    pushed
    record = queue.first
    expect(queue.first.delete).to be(true)
    other = SomeJob.perform_async(1)
    expect(record.delete).to be(false)
    expect(held).to eq(["SomeJob #{other}"])
  end

  it "gives its key back when it is deleted from the schedule, from the retries" do
    job_class(during: :queued_and_running) { |*| raise "oops" }
    SomeJob.perform_in(100, 1)
    scheduled.first.delete
    expect(held).to be_empty
    SomeJob.perform_async(1)
    work_all
    retries.find_job(retries.first.jid).delete
    expect(held).to be_empty
  end

  it "gives its key back when it is deleted from a set by its time and its id" do
    job_class(during: :queued_and_running)
    2.times { |n| SomeJob.perform_in(100, n) }
    kept, deleted = scheduled.to_a
    scheduled.delete(deleted.score, "another id")
    expect([scheduled.size, held.size]).to eq([2, 2])
    scheduled.delete(deleted.score, deleted.jid)
    expect([scheduled.map(&:jid), held]).to eq([[kept.jid], ["SomeJob #{kept.jid}"]])
  end

  it "gives its key back when it is killed" do
    job_class(during: :queued_and_running)
    SomeJob.perform_in(100, 1)
    scheduled.first.kill
    expect([dead.size, held]).to eq([1, []])
    2.times { |n| SomeJob.perform_in(100, n) }
    scheduled.kill_all
    expect([dead.size, held]).to eq([3, []])
  end

  it "gives its key back when its queue is cleared, among many" do
    job_class(during: :queued_and_running)
    stub_const("Plain", Class.new { include Sidekiq::Job })
    Plain.perform_bulk(Array.new(600) { |n| [n] })
    SomeJob.perform_bulk([[1], [2]])
    Plain.perform_bulk(Array.new(600) { |n| [n] })
    forget_class
    expect(queue.clear).to be(true)
    expect([queue.size, held]).to eq([0, []])
    expect(jobs_redis.call("KEYS", "*cleared*")).to be_empty
  end

  it "gives its key back when the schedule, or the retries, are cleared" do
    job_class(during: :queued_and_running) { |*| raise "oops" }
    SomeJob.perform_in(100, 1)
    SomeJob.perform_async(2)
    work_all
    expect([scheduled.clear, retries.clear]).to eq([true, true])
    expect([scheduled.size, retries.size, held]).to eq([0, 0, []])
  end

  it "gives its key back when its queue or set is cleared by the other name of that, 💣" do
    job_class(during: :queued)
    SomeJob.perform_async(1)
    SomeJob.perform_in(100, 2)
    expect([queue, scheduled].map(&:💣)).to eq([true, true])
    expect([queue.size, scheduled.size, held]).to eq([0, 0, []])
  end

  it "leaves a cleared queue as Sidekiq does, also an empty one" do
    expect(Sidekiq::Queue.new("none").clear).to be(true)
    pushed
    queue.clear
    expect(Sidekiq::Queue.all).to be_empty
    expect(queue.clear).to be(true)
  end

  it "says so where it cannot give its key back" do
    jid = pushed
    allow(Plock).to receive(:adopt).and_raise(Plock::UnavailableError.new("away", code: :refused))
    expect(queue.first.delete).to be(true)
    expect(log).to match(/WARN: plock: job #{jid} is gone; its key stays taken .* away/)
  end

  it "says so if Sidekiq's Redis does not let it, and is still cleared" do
    pushed
    jobs_redis.call("ACL", "SETUSER", "default", "-rename")
    expect(queue.clear).to be(true)
    expect([queue.size, held.size]).to eq([0, 1])
    expect(log).to match(/WARN: plock: the keys of the jobs of queue:default stay taken/)
  ensure
    jobs_redis.call("ACL", "SETUSER", "default", "+@all")
  end

  it "asks a store that is away only once for all" do
    job_class(during: :queued)
    SomeJob.perform_bulk(Array.new(20) { |n| [n] })
    asked = done
    allow(Plock).to receive(:adopt) { asked << true && raise(Plock::UnavailableError, "away") }
    queue.clear
    expect(asked.size).to eq(1)
    pool = Sidekiq::RedisConnection.create(url: "redis://127.0.0.1:1", timeout: 0.2)
    expect { Sidekiq::Client.via(pool) { SomeJob.perform_bulk([[100], [101]]) } }.to raise_error(
      RedisClient::CannotConnectError
    )
    expect(asked.size).to eq(2)
    expect(log).to match(/WARN: plock: SomeJob \h{24}, SomeJob \h{24} not pushed/)
  end

  it "is none of plock's business without a guard" do
    stub_const("Plain", Class.new { include Sidekiq::Job })
    Plain.perform_async({ "plock" => { "lease" => "nonsense" } })
    expect(queue.first.delete).to be(true)
    Plain.perform_async(1)
    queue.first.item["plock"] = 5
    expect(queue.clear).to be(true)
  end
end
