# frozen_string_literal: true

require "spec_helper"
require "support/active_jobs"

RSpec.describe "A guarded ActiveJob that meets with a conflict" do
  include_context "with ActiveJob"

  it "comes back later, as the same job, which counts as no execution" do
    run_jobs(:test, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", max_conflicts: 2
        retry_on(Plock::Guard::Conflict, attempts: 1) { |job, error|
          DONE << [job.executions, error.conflicts]
        }
      end
      events = []
      Plock.subscribe(/job/) { |event| events << event.name }
      adapter = ActiveJob::Base.queue_adapter
      id = Import.perform_later(1).job_id
      lease = Plock.acquire("k", label: "somebody else")
      delays = Array.new(2) do
        data = adapter.enqueued_jobs.shift
        before = Time.now.to_f
        ActiveJob::Base.execute(data.except(:job, :args, :queue, :priority, :at))
        jobs = adapter.enqueued_jobs.map { |job| [job["job_id"], job["executions"]] }
        see "jobs", jobs, [[id, 0]]
        adapter.enqueued_jobs.first[:at] - before
      end
      see "first delay", delays[0], 0.9..3.0
      see "second delay", delays[1], 1.9..4.3
      postponed = /plock: Import #{id} put off for 1\.\d s \(conflict 1\)/
      holder = /"k" is held since .* label "somebody else"/
      see "log", LOG.string, /INFO -- : #{postponed}: #{holder}/
      data = adapter.enqueued_jobs.shift
      ActiveJob::Base.execute(data.except(:job, :args, :queue, :priority, :at))
      see "raised after that", done, [[1, 3]]
      see "events", events, %i[job_rescheduled job_rescheduled job_refused]
      lease.release
    RUBY
  end

  it "runs when it has come back, with :async" do
    run_jobs(:async, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k"
      end
      hurry
      lease = Plock.acquire("k")
      Import.perform_later(1)
      eventually { LOG.string.include?("put off") }
      lease.release
      eventually { DONE.size == 1 }
      see "held while it ran", done, [1]
    RUBY
  end

  it "is seen by retry_on and discard_on as Plock::Guard::Conflict" do
    run_jobs(:inline, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", on_conflict: :retry
        discard_on(Plock::Guard::Conflict) { |job, error|
          same = job.job_id == error.job_id
          DONE << [same, error.job_class, error.key, error.status.label]
        }
      end
      Plock.acquire("k", label: "somebody else") { Import.perform_later(1) }
      see "told", done, [[true, "Import", "k", "somebody else"]]
      class Retried < Guarded
        guard_with key: "k", on_conflict: :retry
        retry_on(Plock::Guard::Conflict, wait: 0, attempts: 3) { |job, error|
          DONE << job.executions
        }
      end
      ActiveJob::QueueAdapters::InlineAdapter.class_eval { def enqueue_at(job, _) = enqueue(job) }
      Plock.acquire("k") { Retried.perform_later(1) }
      see "tries", done, [3]
    RUBY
  end

  it "is dropped, and that is told, with :discard" do
    run_jobs(:async, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", on_conflict: :discard
      end
      events = Queue.new
      Plock.subscribe(/job/) { |event| events << [event.name, event.details[:job_id]] }
      Plock.acquire("k") do
        id = Import.perform_later(1).job_id
        see "event", events.pop, [:job_discarded, id]
        see "log", LOG.string, /WARN -- : plock: Import #{id} dropped: "k" is held/
      end
      see "run", done, []
    RUBY
  end

  it "does what its guard says where it is enqueued" do
    run_jobs(:async, <<~'RUBY')
      class Dropped < Guarded
        guard_with key: "k", during: :queued_and_running, on_conflict: :discard
      end
      class Refused < Guarded
        guard_with key: "k", during: :queued_and_running, on_conflict: :retry
      end
      class PutOff < Guarded
        guard_with key: "k", during: :queued_and_running
      end
      class PutOffQueued < Guarded
        guard_with key: "k", during: :queued
      end
      lease = Plock.acquire("k")
      seen = nil
      see "dropped", Dropped.perform_later(1) { |job| seen = job }, false
      see "why", seen.enqueue_error, Plock::Guard::Conflict
      see "log", LOG.string, /WARN -- : plock: Dropped \S+ dropped: "k" is held/
      see "refused", raised { Refused.perform_later(1) }, Plock::Guard::Conflict
      put_off = PutOff.perform_later(1)
      see "put off", put_off.scheduled_at - Time.now, -9..1.3
      hurry
      later = PutOff.set(wait: 100).perform_later(1)
      see "put off", later.scheduled_at - Time.now, 90..101
      see "run", done, []
      lease.release
      eventually { DONE.size == 1 }
      see "held while it ran", done, [1]
      eventually { held.empty? }
      lease = Plock.acquire("k")
      PutOffQueued.perform_later(1)
      # The job is put off once when it is pushed, and once when it is due.
      eventually { LOG.string.scan(/PutOffQueued \S+ put off/).size == 2 }
      lease.release
      eventually { DONE.size == 1 }
    RUBY
  end

  it "is not dropped where it is its own earlier run that has the key" do
    run_jobs(:async, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", on_conflict: :discard
        def perform
          REST << true
          DONE << GO.pop
        end
      end
      hurry
      data = Import.new.serialize
      first = Thread.new { ActiveJob::Base.execute(data) }
      REST.pop
      ActiveJob::Base.execute(data) # as a queue does if it takes the first run for dead
      see "log", LOG.string, /put off for \d\.\d s \(its own earlier run has not ended\)/
      2.times { |n| GO << n }
      first.join
      eventually { DONE.size == 2 }
    RUBY
  end
end
