# frozen_string_literal: true

require "spec_helper"
require "support/active_jobs"

RSpec.describe "Guarded ActiveJobs" do
  include_context "with ActiveJob"

  jobs = <<~'RUBY'
    class Running < Guarded
      guard_with key: "running"
    end

    class Queued < Guarded
      guard_with key: "queued", during: :queued
    end

    class Both < Guarded
      guard_with key: "both", during: :queued_and_running
    end
    ALL = [Running, Queued, Both]
  RUBY

  it "have their keys with :async, when they should, and no longer" do
    run_jobs(:async, jobs + <<~'RUBY')
      occupy_the_thread
      ids = ALL.map { |job| job.perform_later(1).job_id }
      see "held in the queue", held, ["Both #{ids[2]}", "Queued #{ids[1]}"]
      GO << true
      eventually { DONE.size == 3 }
      # While Running runs, three locks are held: its own, and those of the two queued jobs. While
      # Queued runs, only the job Both holds a lock. While Both runs, it holds two: on its key and
      # on its job id.
      see "held while they ran", done, [2 + 1, 1, 2]
      eventually("held when they were done") { held.empty? }
    RUBY
  end

  it "have their keys with :inline, and tell their callers of conflicts" do
    run_jobs(:inline, jobs + <<~'RUBY')
      ALL.each { |job| job.perform_later(1) }
      see "held while they ran", done, [1, 0, 2]
      see "held", held, []
      Plock.acquire("running") {
        see "conflict", raised { Running.perform_later(1) }, Plock::Guard::Conflict
      }
      Plock.acquire("both") {
        see "conflict", raised { Both.perform_later(1) }, Plock::Guard::Conflict
      }
      Plock.acquire("queued") {
        see "conflict", raised { Queued.perform_later(1) }, Plock::Guard::Conflict
      }
      see "run", done, []

      class Failing < Guarded
        guard_with key: "failing", during: :queued_and_running
        def perform = raise(OnceFailed)
      end
      see "failed", raised { Failing.perform_later }, OnceFailed
      see "held", held, []
    RUBY
  end

  it "leave no key behind with :test, and run there" do
    run_jobs(:test, jobs + <<~'RUBY')
      require "active_job/test_helper"
      include ActiveJob::TestHelper
      def assert_nothing_raised(*) = yield
      ALL.each { |job| 2.times { job.perform_later(1) } }
      Both.set(wait: 60).perform_later(1)
      see "held", held, []
      see "queued", enqueued_jobs.size, 7
      enqueued_jobs.clear

      adapter = ActiveJob::Base.queue_adapter
      adapter.perform_enqueued_jobs = adapter.perform_enqueued_at_jobs = true
      ALL.each { |job| job.perform_later(1) }
      see "held while they ran", done, [1, 0, 1]
      see "held", held, []
      Plock.acquire("running") {
        see "conflict", raised { Running.perform_later(1) }, Plock::Guard::Conflict
      }
    RUBY
  end

  it "have their keys where they start, when they were enqueued by perform_all_later" do
    run_jobs(:async, jobs + <<~'RUBY')
      ActiveJob.perform_all_later(ALL.map { |job| job.new(1) })
      eventually { DONE.size == 3 }
      see "run", done.size, 3
      eventually { held.empty? }
    RUBY
  end

  it "are run by perform_now, which tells its caller of conflicts" do
    run_jobs(:async, jobs + <<~'RUBY')
      ALL.each { |job| job.perform_now(1) }
      see "held while they ran", done, [1, 0, 1]
      Plock.acquire("running") {
        see "conflict", raised { Running.perform_now }, Plock::Guard::Conflict
      }
      see "held", held, []
    RUBY
  end

  it "say which ActiveJob they need" do
    output, = ruby(<<~RUBY)
      require "logger"
      require "active_job"
      def ActiveJob.version = Gem::Version.new("7.1.5")
      begin
        require "plock/active_job"
      rescue Plock::UnsupportedError => e
        puts e.message
      end
    RUBY
    expect(output).to end_with("plock/active_job needs ActiveJob 7.2 or later (this is 7.1.5)\n")
  end
end
