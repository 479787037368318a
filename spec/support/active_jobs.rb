# frozen_string_literal: true

module Support
  # Runs programs that use ActiveJob, each in a process of its own, because ActiveJob changes many
  # classes. A program checks a value with `see name, actual, expected`.
  module ActiveJobs
    PRELUDE = <<~'RUBY'
      $VERBOSE = nil
      require "logger"
      require "stringio"
      require "active_job"
      LOG = StringIO.new
      ActiveJob::Base.logger = Logger.new(LOG)
      if ENV["ADAPTER"] == "sidekiq"
        require "sidekiq"
        module Sidekiq::ActiveJob
          # In Sidekiq 7, the wrapper is in a file that requires all of Rails.
          class Wrapper
            include Sidekiq::Job
            def perform(data) = ::ActiveJob::Base.execute(data.merge("provider_job_id" => jid))
          end
        end
        # In an application, Sidekiq's engine for Rails loads the file below. ActiveJob has a file
        # with the same name.
        sidekiq = $LOADED_FEATURES.find { |file| file.end_with?("/lib/sidekiq.rb") }
        require File.join(File.dirname(sidekiq), "active_job/queue_adapters/sidekiq_adapter")
      end
      ActiveJob::Base.queue_adapter = ENV["ADAPTER"].to_sym
      require "plock/active_job"
      Plock.configure { |c| c.logger = ActiveJob::Base.logger }

      DONE = Queue.new
      REST = Queue.new
      GO = Queue.new

      def held = Plock.each_lock.map(&:label).sort

      def remaining(key) = Plock.status(key).remaining.to_f

      def done = Array.new(DONE.size) { DONE.pop }

      def see(what, is, expected)
        return if expected === is

        abort "#{what}: #{is.inspect}, not #{expected.inspect}\n#{LOG.string}\n#{caller(1, 1)}"
      end

      def eventually(what = "not in time")
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5
        until yield
          late = Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          abort "#{what}\n#{LOG.string}\n#{caller(1, 1)}" if late
          sleep 0.002
        end
      end

      # From now on, a job that is put off is due 0.05 s later.
      def hurry = Plock::Guard::Collision.define_singleton_method(:delay) { |_times| 0.05 }

      # Keeps jobs in a list. `work_list` runs the next one, whenever it is due.
      class ListAdapter
        JOBS = []

        def enqueue(job) = JOBS << job.serialize

        def enqueue_at(job, _time) = enqueue(job)

        def enqueue_after_transaction_commit? = false
      end

      def use_list = ActiveJob::Base.queue_adapter = ListAdapter.new

      def listed = ListAdapter::JOBS

      def work_list = ActiveJob::Base.execute(listed.shift)

      class Blocker < ActiveJob::Base
        def perform = (REST << true) && GO.pop
      end

      # Keeps the only thread that runs jobs busy, until something is pushed to GO.
      def occupy_the_thread
        ActiveJob::Base.queue_adapter = ActiveJob::QueueAdapters::AsyncAdapter.new(max_threads: 1)
        Blocker.perform_later
        REST.pop
      end

      def raised
        yield
        nil
      rescue StandardError => e
        e
      end

      class Guarded < ActiveJob::Base
        include Plock::Guard

        def perform(*) = DONE << held.size
      end

      class OnceFailed < StandardError; end
    RUBY

    def run_jobs(adapter, program, url: "memory:", **env)
      output, status =
        ruby(PRELUDE + program, env: { "ADAPTER" => adapter.to_s, "PLOCK_URL" => url, **env })
      expect([output, status.success?]).to eq(["", true])
    end
  end
end

RSpec.shared_context "with ActiveJob" do
  include Support::ActiveJobs

  before do
    Gem::Specification.find_by_name("activejob")
  rescue Gem::MissingSpecError
    skip "activejob not installed"
  end
end
