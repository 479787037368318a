# frozen_string_literal: true

require "spec_helper"
require "support/sidekiq_jobs"

# At most N jobs run at the same time.
RSpec.describe "A Sidekiq job whose guard has a limit" do
  include_context "with Sidekiq"

  def running(count)
    Array.new(count) { in_thread.last }
  end

  def finish(threads)
    threads.each { going << true }
    threads.each(&:join)
  end

  it "runs beside as many as may, and no more" do
    rest = self.rest
    job_class(key: "k", limit: 2, on_conflict: :retry) { |_| rest.call }
    jids = Array.new(3) { |n| SomeJob.perform_async(n) }
    threads = running(2)
    expect(Plock.semaphore("k", permits: 2).status.holders.map(&:label)).to match_array(
      jids.first(2).map { |jid| "SomeJob #{jid}" }
    )
    expect(work_all).to contain_exactly(an_instance_of(Plock::Guard::Conflict))
    expect(events.last).to have_attributes(name: :job_refused, key_digest: match(/\A\h{64}/))
    finish(threads)
    expect(held).to be_empty
  end

  it "does not exclude who takes the lock of that name, as the README says" do
    rest = self.rest
    job_class(key: "k", limit: 2) { rest.call }
    SomeJob.perform_async
    threads = running(1)
    expect(Plock.try_acquire("k") { :had }).to eq(:had)
    finish(threads)
  end

  it "waits until there are fewer, if the limit was lowered while they ran" do
    rest = self.rest
    job_class(key: "k", limit: 3, on_conflict: :retry) { |_| rest.call }
    3.times { |n| SomeJob.perform_async(n) }
    threads = running(3)
    job_class(key: "k", limit: 2, on_conflict: :retry) # the job class as the next deploy defines it
    SomeJob.perform_async(3)
    expect(work_all.size).to eq(1)
    going << true # any of the jobs may end now
    eventually { held.size == 2 }
    poll
    expect(work_all.size).to eq(1)
    going << true
    eventually { held.size == 1 }
    poll
    expect(work_all).to be_empty
    expect(done.size).to eq(1)
    going << true
    threads.each(&:join)
    expect(held).to be_empty
  end

  it "has so many in its queue, and each its own lease through its retries" do
    test = self
    seen = done
    job_class(
      during: :queued_and_running, key: "k", limit: 2, on_conflict: :discard, ttl: 5
    ) do |number|
      seen << [number, test.held.size]
      raise "oops" if number == 0 && seen.count { |job,| job == 0 } == 1
    end
    expect(Array.new(3) { |n| SomeJob.perform_async(n) }).to match([/\h{24}/, /\h{24}/, nil])
    expect(work_all.map(&:message)).to eq(["oops"])
    expect(held.size).to eq(1)
    expect(SomeJob.perform_async(3)).to be_a(String)
    poll
    expect(work_all).to be_empty
    expect(done.map(&:first)).to eq([0, 1, 0, 3]).or eq([0, 1, 3, 0])
    expect(held).to be_empty
  end

  it "gives its own permit back when it is deleted" do
    job_class(during: :queued, key: "k", limit: 2)
    2.times { |n| SomeJob.perform_async(n) }
    queue.first.delete
    expect(held.size).to eq(1)
    queue.clear
    expect(held).to be_empty
  end

  it "waits for its old run where that has the last permit" do
    rest, ran = rest_once, done
    job_class(key: "k", limit: 2, on_conflict: :discard) { rest.call || ran << :again }
    jid = SomeJob.perform_async
    processor, thread = in_thread
    other = Plock.semaphore("k", permits: 2).acquire
    capsule.fetcher.bulk_requeue([processor.job])
    expect(work_all).to be_empty
    expect(scheduled.map(&:jid)).to eq([jid])
    thread.raise(Sidekiq::Shutdown)
    thread.join
    poll
    expect(work_all).to be_empty
    expect(done).to eq([:again])
    other.release
  end
end
