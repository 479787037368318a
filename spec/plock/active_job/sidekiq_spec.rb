# frozen_string_literal: true

require "spec_helper"
require "support/active_jobs"
require "support/sidekiq_jobs"

RSpec.describe "Guarded ActiveJobs on Sidekiq" do
  include_context "with ActiveJob"
  include Support::SidekiqJobs

  before { jobs_redis.call("FLUSHALL") } # only these specs use this Redis

  setup = <<~'RUBY'
    require "sidekiq/api"
    require "sidekiq/processor"
    require "sidekiq/scheduled"
    Sidekiq.default_configuration.redis = { url: ENV.fetch("PLOCK_URL") }
    Sidekiq.default_configuration.logger = Sidekiq::Logger.new(
      LOG, level: :info, formatter: Sidekiq::Logger::Formatters::Pretty.new
    )

    def capsule = Sidekiq.default_configuration.default_capsule

    def work(processor = Sidekiq::Processor.new(capsule) { |*| nil })
      raised { processor.send(:process_one) }
    end

    def queue = Sidekiq::Queue.new

    def poll
      %w[schedule retry].each do |set|
        Sidekiq.redis { |redis|
          redis.zrange(set, 0, -1).each { |job| redis.call("ZADD", set, "XX", 0, job) }
        }
      end
      Sidekiq::Scheduled::Enq.new(Sidekiq.default_configuration).enqueue_jobs
    end
    at_exit { see "leases in the log", LOG.string.scan(/plock1:|"plock":/), [] }

    class Both < Guarded
      guard_with key: "k", during: :queued_and_running, ttl: 5, on_conflict: :discard
    end
  RUBY

  define_method(:run_on_sidekiq) do |program|
    run_jobs(:sidekiq, setup + program, url: jobs_redis.unix_url)
  end

  it "have their keys from the push until they are done" do
    run_on_sidekiq(<<~'RUBY')
      id = Both.perform_later(1).job_id
      see "held in the queue", held, ["Both #{id}"]
      see "dropped", Both.perform_later(2), false
      see "error", work, nil
      see "held while it ran", done, [2]
      see "held", held, []
      Both.set(wait: 100).perform_later(1)
      see "kept", remaining("k"), 86_490..86_501
      poll
      work
      see "run", done, [2]
      see "held", held, []
    RUBY
  end

  it "keep them through Sidekiq's retries, and give them back when they die" do
    run_on_sidekiq(<<~'RUBY')
      class Failing < Both
        # Sidekiq 8 gives jobs this method. Before Sidekiq 8, jobs have it only with Rails.
        sidekiq_options(retry: 1) if respond_to?(:sidekiq_options)
        def perform = (DONE << Plock.status("k").fence) && raise(OnceFailed)
      end
      ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper.sidekiq_options(retry: 1)
      Failing.perform_later
      fence = Plock.status("k").fence
      see "error", work, OnceFailed
      see "kept", remaining("k"), 86_000..86_500
      see "others", Both.perform_later(1), false
      poll
      see "error", work, OnceFailed
      fences = [fence, *done]
      see "fences", fences, fences.sort.uniq
      see "runs", fences.size, 3
      see "nothing lost", LOG.string[/had lost its lease/], nil
      see "dead", Sidekiq::DeadSet.new.size, 1
      see "held", held, []
    RUBY
  end

  it "give them back when they are deleted, or their queue is cleared" do
    run_on_sidekiq(<<~'RUBY')
      Both.perform_later(1)
      Object.send(:remove_const, :Both)
      queue.first.delete
      see "held", held, []
      class Other < Guarded
        guard_with during: :queued
      end
      2.times { |n| Other.perform_later(n) }
      see "held", held.size, 2
      queue.clear
      see "held", held, []
    RUBY
  end

  it "wait for their old run where a shutdown has pushed them back" do
    run_on_sidekiq(<<~'RUBY')
      class Resting < Both
        def perform
          return DONE << :again if Plock.status("again").held?
          REST << true
          GO.pop
        end
      end
      Resting.perform_later
      processor = Sidekiq::Processor.new(capsule) { |*| nil }
      thread = Thread.new { work(processor) }
      REST.pop
      capsule.fetcher.bulk_requeue([processor.job])
      work
      see "put off", Sidekiq::ScheduledSet.new.size, 1
      see "log", LOG.string, /its own earlier run has not ended/
      thread.raise(Sidekiq::Shutdown)
      thread.join
      see "kept", remaining("k"), 86_000..86_500
      again = Plock.acquire("again")
      poll
      see "error", work, nil
      see "run", done, [:again]
      again.release
      see "held", held, []
    RUBY
  end

  it "come back later if another caller holds their key" do
    run_on_sidekiq(<<~'RUBY')
      class Running < Guarded
        guard_with key: "k"
      end
      Running.perform_later(1)
      Plock.acquire("k") { see "error", work, nil }
      see "put off", Sidekiq::ScheduledSet.new.map { |job| job["wrapped"] }, ["Running"]
      poll
      see "error", work, nil
      see "held while it ran", done, [1]
    RUBY
  end

  it "have no key, and are not lost, if another middleware stops their push" do
    run_on_sidekiq(<<~'RUBY')
      stopping = false
      stop = Class.new { define_method(:call) { |*, &push| push.call unless stopping } }
      Sidekiq.default_configuration.client_middleware.add(stop)
      class Running < Guarded
        guard_with key: "k"
      end
      Running.perform_later
      stopping = true
      see "stopped", [Both.perform_later, Running.perform_later], [false, false]
      see "held", held, []
      Plock.acquire("k") { see "error", work, Plock::Guard::Conflict }
      see "not put off", LOG.string[/put off/], nil
      see "retried", Sidekiq::RetrySet.new.size, 1
      stopping = false
      poll
      see "error", work, nil
      see "held while it ran", done, [1]
      see "enqueued", Both.perform_later, Both
    RUBY
  end

  it "have no key in the queue under Sidekiq::Testing, and tell their callers of conflicts" do
    run_on_sidekiq(<<~'RUBY')
      require "sidekiq/testing"
      see "enqueued", Array.new(2) { |n| Both.perform_later(n).class }, [Both, Both]
      see "held", held, []
      Sidekiq::Job.drain_all
      see "held while they ran", done, [1, 1]
      class Running < Guarded
        guard_with key: "k"
      end
      Running.perform_later
      Plock.acquire("k") do
        see "conflict", raised { Sidekiq::Job.drain_all }, Plock::Guard::Conflict
        Sidekiq::Testing.inline! do
          see "conflict", raised { Running.perform_later }, Plock::Guard::Conflict
        end
      end
      Sidekiq::Testing.inline! { Both.perform_later }
      see "held while it ran", done, [1]
      Sidekiq::Testing.disable! { Both.perform_later }
      see "held", held.size, 1
    RUBY
  end
end
