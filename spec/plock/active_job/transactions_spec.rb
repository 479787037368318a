# frozen_string_literal: true

require "spec_helper"
require "support/active_jobs"
require "support/sidekiq_jobs"

RSpec.describe "A guarded ActiveJob that is enqueued in a transaction" do
  include_context "with ActiveJob"
  include Support::SidekiqJobs

  before do
    %w[activerecord sqlite3].each { |name| Gem::Specification.find_by_name(name) }
  rescue Gem::MissingSpecError => e
    skip "#{e.name} not installed"
  end

  # Without Rails, ActiveJob does not wait for the commit by itself.
  rows = <<~'RUBY'
    require "active_record"
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Schema.define { create_table(:rows) { |table| table.text :data } }
    class Row < ActiveRecord::Base; end

    class RowAdapter
      def enqueue(job) = Row.create!(data: JSON.generate(job.serialize))

      def enqueue_at(job, _time) = enqueue(job)

      def enqueue_after_transaction_commit? = false
    end

    class Import < Guarded
      guard_with key: "k", during: :queued_and_running, on_conflict: :discard
    end

    # Checks how many rows and locks remain after a rollback.
    def transaction(what, expected)
      Row.transaction do
        yield
        raise ActiveRecord::Rollback
      end
      see what, [Row.count, held.size], expected
    end
  RUBY

  it "gives its key back if that is rolled back, and the job with it" do
    run_jobs(:inline, rows + <<~'RUBY')
      ActiveJob::Base.queue_adapter = RowAdapter.new
      transaction("rolled back", [0, 0]) do
        Import.perform_later
        see "held", held.size, 1
      end
      transaction("rolled back outside", [0, 0]) do
        Row.transaction(requires_new: true) { Import.perform_later }
        see "held", held.size, 1
      end
      Row.transaction do
        Row.create!
        Row.transaction(requires_new: true) do
          Import.perform_later
          raise ActiveRecord::Rollback
        end
        see "rolled back inside", [Row.count, held], [1, []]
      end
      Row.delete_all
      see "raised", raised { Row.transaction { Import.perform_later && raise(OnceFailed) } },
          OnceFailed
      see "held", held, []
      Row.transaction { Import.perform_later }
      see "committed", [Row.count, held.size], [1, 1]
      ActiveJob::Base.execute(JSON.parse(Row.first.data))
      see "held while it ran", done, [2]
      see "held", held, []
    RUBY
  end

  it "gives back no lease of a run, or of a job that was not enqueued" do
    run_jobs(:inline, rows + <<~'RUBY')
      ActiveJob::Base.queue_adapter = adapter = RowAdapter.new
      other = nil
      transaction("running", [0, 1]) do
        Import.perform_later
        ActiveJob::Base.execute(JSON.parse(Row.first.data))
        other = Plock.acquire("k")
      end
      see "held", other.release, true
      def adapter.enqueue(_job) = raise("full")
      transaction("not enqueued", [0, 1]) do
        see "error", raised { Import.perform_later }, RuntimeError
        other = Plock.acquire("k")
      end
      see "held", other.release, true
    RUBY
  end

  it "keeps its key if its queue is in no database, and so keeps the job" do
    run_jobs(:async, rows + <<~'RUBY')
      occupy_the_thread
      transaction("rolled back", [0, 1]) { Import.perform_later }
      GO << true
      eventually { DONE.size == 1 }
      see "nothing lost", LOG.string[/had lost its lease/], nil
      eventually { held.empty? }
    RUBY
  end

  it "gives its key back on Sidekiq, too, if that pushes after the commit" do
    jobs_redis.call("FLUSHALL") # only these specs use this Redis
    run_jobs(:sidekiq, rows + <<~'RUBY', url: jobs_redis.unix_url)
      require "sidekiq/api"
      Sidekiq.default_configuration.redis = { url: ENV.fetch("PLOCK_URL") }
      Sidekiq.default_configuration.logger = Logger.new(LOG)
      queued = -> { [Sidekiq::Queue.new.size, held.size] }
      transaction("rolled back, and pushed", [0, 1]) { Import.perform_later }
      see "queued", queued.(), [1, 1]
      Sidekiq::Queue.new.clear

      Sidekiq.transactional_push!
      transaction("rolled back", [0, 0]) do
        Import.perform_later
        see "held", held.size, 1
      end
      see "queued", queued.(), [0, 0]
      Row.transaction { Import.perform_later }
      see "committed", queued.(), [1, 1]
      Sidekiq::Queue.new.clear

      # Sidekiq's own jobs get their keys when they are pushed.
      class Native
        include Sidekiq::Job
        include Plock::Guard
        guard_with key: "k", during: :queued
      end
      transaction("rolled back", [0, 0]) do
        Native.perform_async
        see "held", held, []
      end
      see "queued", queued.(), [0, 0]
      Row.transaction { Native.perform_async }
      see "committed", queued.(), [1, 1]
    RUBY
  end
end
