# frozen_string_literal: true

require "spec_helper"
require "support/active_jobs"

RSpec.describe "A guarded ActiveJob that fails" do
  include_context "with ActiveJob"

  it "keeps its key through retry_on and retry_job, hands it from run to run, " \
     "and gives it back when it is done" do
    run_jobs(:async, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", during: :queued_and_running, queued_ttl: 500, ttl: 5
        retry_on OnceFailed, wait: 1, jitter: 0
        def perform
          DONE << Plock.status("k").fence
          raise OnceFailed if executions == 1
          retry_job(wait: 1) if executions == 2
        end
      end
      Import.perform_later
      fence = Plock.status("k").fence
      eventually { DONE.size == 1 }
      eventually { LOG.string.include?("Retrying Import") }
      eventually("kept") { remaining("k").between?(499, 501.1) }
      see "others", Plock.try_acquire("k"), nil
      eventually { DONE.size == 2 }
      eventually("kept") { remaining("k").between?(499, 501.1) }
      eventually { DONE.size == 3 }
      fences = [fence, *done]
      see "fences", fences, fences.sort.uniq
      see "nothing lost", LOG.string[/had lost its lease/], nil
      eventually { held.empty? }
    RUBY
  end

  it "keeps its key for as long as it is put off by retry_on" do
    run_jobs(:async, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", during: :queued_and_running, queued_ttl: 100, ttl: 5
        retry_on OnceFailed, wait: 1_000, jitter: 0
        def perform = raise(OnceFailed)
      end
      Import.perform_later
      eventually("kept") { remaining("k").between?(1_090, 1_100) }
      class Again < Guarded
        guard_with key: "again", during: :queued_and_running, queued_ttl: 100, ttl: 5
        def perform = retry_job(wait: 1_000)
      end
      Again.perform_later
      eventually("kept") { remaining("again").between?(1_090, 1_100) }
      Plock.each_lock { |status| Plock.break(status) }
      exit!(0) # without waiting for the job that is due in 1,000 s
    RUBY
  end

  it "is enqueued again, even if another job is queued by then, with during: :queued" do
    run_jobs(:inline, <<~'RUBY')
      use_list
      class Import < Guarded
        guard_with key: "k", during: :queued, on_conflict: :discard
        retry_on OnceFailed, wait: 1
        def perform(name)
          DONE << name
          return unless name == :first && executions == 1
          Import.perform_later(:second)
          raise OnceFailed
        end
      end
      Import.perform_later(:first)
      work_list until listed.empty?
      see "run", done, %i[first second first]
      see "held", held, []
    RUBY
  end

  it "is enqueued again, and runs, without its key, if it got that when it started" do
    run_jobs(:inline, <<~'RUBY')
      use_list
      class Import < Guarded
        guard_with key: "k", during: :queued,
                   on_conflict: ->(conflict) { conflict.conflicts == 1 ? :reschedule : :discard }
        retry_on OnceFailed, wait: 1
        def perform
          DONE << executions
          raise OnceFailed if executions == 1
        end
      end
      Plock.acquire("k") { Import.perform_later }
      work_list
      Plock.acquire("k") { work_list }
      see "run", done, [1, 2]
    RUBY
  end

  it "is enqueued again if the store is away by then" do
    run_jobs(:inline, <<~'RUBY')
      use_list
      class Import < Guarded
        guard_with key: "k", during: :queued
        retry_on OnceFailed, wait: 1
        def perform
          DONE << executions
          return if executions == 2
          Plock.define_singleton_method(:acquire) { |*, **|
            raise Plock::UnavailableError.new("away", code: :refused)
          }
          raise OnceFailed
        end
      end
      Import.perform_later
      work_list until listed.empty?
      see "run", done, [1, 2]
    RUBY
  end

  it "is enqueued again without a key if it had none in the queue, as after perform_all_later" do
    run_jobs(:inline, <<~'RUBY')
      use_list
      class Import < Guarded
        guard_with key: "k", during: :queued_and_running, on_conflict: :retry
        retry_on OnceFailed, Plock::Guard::Conflict, wait: 1
        def perform
          DONE << held.size
          raise OnceFailed if executions == 2
        end
      end
      ActiveJob.perform_all_later([Import.new])
      Plock.acquire("k") { work_list }
      see "run", done, []
      work_list
      see "held", held, []
      Plock.acquire("k") { work_list }
      work_list
      see "held while it ran", done, [1, 1]
      see "held", [held, listed], [[], []]
      see "nothing lost", LOG.string[/had lost its lease/], nil
    RUBY
  end

  it "gives its key back when it will not run again" do
    run_jobs(:async, <<~'RUBY')
      class Given < Guarded
        guard_with key: "k", during: :queued_and_running
        def perform = (DONE << held.size) && raise(OnceFailed)
      end
      class Discarded < Given
        discard_on OnceFailed
      end
      class Exhausted < Given
        retry_on(OnceFailed, attempts: 1) { nil }
      end
      [Given, Discarded, Exhausted].each do |job|
        job.perform_later
        eventually { DONE.size == 1 }
        see "held while it ran", done, [2]
        eventually("#{job} keeps its key") { held.empty? }
      end
    RUBY
  end

  it "gives its key back where it is not enqueued after all" do
    run_jobs(:async, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", during: :queued_and_running
        before_enqueue { throw :abort if arguments.first == :abort }
      end
      see "aborted", Import.perform_later(:abort), false
      see "held", held, []
      adapter = ActiveJob::Base.queue_adapter
      def adapter.enqueue(_job) = raise(ActiveJob::EnqueueError, "full")
      see "not enqueued", Import.perform_later(1), false
      see "held", held, []
      def adapter.enqueue(_job) = raise("away")
      see "not enqueued", raised { Import.perform_later(1) }, RuntimeError
      see "held", held, []
    RUBY
  end

  it "is seen by retry_on as what the guard raises" do
    run_jobs(:inline, <<~'RUBY')
      class Lost < Guarded
        guard_with key: "k", ttl: 5, on_lost: :raise
        discard_on(Plock::LeaseLost) { |_job, error| DONE << error.lease.key }
        def perform
          Plock.break("k")
          sleep
        end
      end
      Lost.perform_later
      see "told", done, ["k"]

      class Told < Guarded
        guard_with key: "k", ttl: 5
        def perform
          Plock.break("k")
          eventually { LOG.string.match?(/ERROR -- : plock: Told \S+ has lost its lease on "k"/) }
          DONE << :on
        end
      end
      Told.perform_later
      see "told", done, [:on]
    RUBY
  end

  it "raises typed errors where the store is away, or goes without" do
    run_jobs(:inline, <<~'RUBY', url: "redis://127.0.0.1:1")
      class Raises < Guarded
        guard_with key: "k"
        discard_on(Plock::UnavailableError) { DONE << :away }
        def perform = DONE << :run
      end
      class RaisesQueued < Raises
        guard_with key: "k", during: :queued_and_running
      end
      class Proceeds < Raises
        guard_with key: "k", during: :queued_and_running, on_unavailable: :proceed
      end
      Raises.perform_later
      see "told", done, [:away]
      see "pushed", raised { RaisesQueued.perform_later }, Plock::UnavailableError
      see "told", done, []
      Proceeds.perform_later
      see "told", done, [:run]
      see "log", LOG.string.scan("goes unguarded").size, 2
    RUBY
  end
end
