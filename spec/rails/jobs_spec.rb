# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "Guarded jobs in an application of Rails" do
  include_context "with an application of Rails"

  let(:server) { redis_server }

  # In this application, Sidekiq is loaded after plock.
  before do
    app.write(
      "Gemfile", app.read("Gemfile").sub(/^gem "plock".*$/) { "#{$&}, require: 'plock/active_job'" }
    )
    app.use("active_job", "active_record", gems: %w[activejob activerecord sidekiq sqlite3])
    app.configure("config.plock.url = #{server.unix_url.inspect}")
    app.write("config/database.yml", <<~YAML)
      test: { adapter: sqlite3, database: storage/test.sqlite3, timeout: 20000 }
      development: { adapter: sqlite3, database: storage/development.sqlite3 }
    YAML
    app.write("config/initializers/jobs.rb", <<~RUBY)
      Sidekiq.default_configuration.redis = { url: #{server.unix_url.inspect} }
      Sidekiq.configure_client { |config| config.logger.level = Logger::WARN }
    RUBY
    app.write("app/models/account.rb", <<~RUBY)
      class Account < ActiveRecord::Base
        def lock_key = "account:\#{id}"

        def lock_fence = Plock.status(lock_key).fence

        def self.make_table
          ActiveRecord::Schema.verbose = false
          ActiveRecord::Schema.define do
            create_table(:accounts, force: true) { |table| table.integer :fence }
          end
        end
      end
    RUBY
    app.write("app/jobs/import.rb", <<~RUBY)
      class Import < ActiveJob::Base
        include Plock::Guard
        guard_with key: ->(account) { account.lock_key }, during: :queued_and_running, ttl: 5,
                   on_conflict: :discard
        self.enqueue_after_transaction_commit = Rails::VERSION::MAJOR < 8 ? :always : true

        def perform(account) = account.update!(fence: account.lock_fence)
      end
    RUBY
    told(<<~RUBY)
      Account.make_table
      2.times { Account.create! }
    RUBY
  end

  context "on Sidekiq" do
    before { app.configure("config.active_job.queue_adapter = :sidekiq") }

    # Runs one job at a time, because a thread that waits for SQLite blocks all of Ruby, even the
    # lock's holder.
    def start_sidekiq
      pid = app.spawn(RbConfig.ruby, "-S", "bundle", "exec", "sidekiq", "-e", "test", "-c", "1")
      discard(-> { stop(pid) }, :call)
      pid
    end

    # Ends the process, and returns its Process::Status.
    def stop(pid)
      Process.kill(:TERM, pid)
      Timeout.timeout(30) { Process.wait2(pid).last }
    rescue Errno::ESRCH, Errno::ECHILD
      nil # the example has stopped the process
    end

    it "get their keys when the transaction in which they were enqueued has been committed" do
      expect(told(<<~RUBY)).to eq(<<~TEXT)
        require "sidekiq/api"
        see = ->(what) {
          puts "\#{what}: \#{Plock.each_lock.count} held, \#{Sidekiq::Queue.new.size} queued"
        }
        account = Account.first
        Account.transaction do
          Import.perform_later(account)
          see["before the commit"]
        end
        see["after the commit"]
        puts Import.perform_later(account)
        Account.transaction do
          Import.perform_later(Account.last)
          raise ActiveRecord::Rollback
        end
        see["after a rollback"]
        Sidekiq::Queue.new.clear
        see["cleared"]
      RUBY
        before the commit: 0 held, 0 queued
        after the commit: 1 held, 1 queued
        false
        after a rollback: 1 held, 1 queued
        cleared: 0 held, 0 queued
      TEXT
    end

    it "take over the leases acquired at enqueueing, with greater fences, " \
       "and release them when they die" do
      app.write("app/jobs/failing.rb", <<~RUBY)
        class Failing < Import
          sidekiq_options retry: 0

          def perform(account)
            super
            raise "as ever"
          end
        end
      RUBY
      app.write("app/jobs/plain.rb", <<~RUBY)
        class Plain
          include Sidekiq::Job
          include Plock::Guard
          guard_with key: "plain"

          def perform
            Sidekiq.redis { |redis| redis.call("SET", "held", Plock.status("plain").label) }
          end
        end
      RUBY
      fences = told(<<~RUBY).split.map { |fence| Integer(fence) }
        Import.perform_later(Account.first)
        Failing.perform_later(Account.last)
        puts Account.order(:id).map(&:lock_fence)
        Plain.perform_async
      RUBY
      pid = start_sidekiq
      eventually(30) do
        server.call("ZCARD", "dead") == 1 && server.call("EXISTS", "held") == 1 &&
          server.call("LLEN", "queue:default").zero?
      end
      expect(stop(pid)).to be_success
      expect(server.call("GET", "held")).to start_with("Plain ")
      expect(server.call("KEYS", "plock:v1:*")).to be_empty
      ran_with = told("puts Account.order(:id).map(&:fence)").split.map { |fence| Integer(fence) }
      expect(ran_with.zip(fences)).to all(satisfy { |ran, enqueued| ran > enqueued })
    end
  end

  it "are guarded through a reload, new code against old" do
    app.configure("config.active_job.queue_adapter = :async")
    app.write("app/jobs/export.rb", <<~RUBY)
      class Export < ActiveJob::Base
        include Plock::Guard
        guard_with on_conflict: :retry

        def perform(name) = puts(name) || TOLD.pop
      end
    RUBY
    output = told(<<~RUBY, environment: "development")
      TOLD = Queue.new
      old = Export
      running = Thread.new { old.perform_now("one") }
      sleep 0.001 until Plock.each_lock.any?
      Rails.application.reloader.reload!
      puts Export.equal?(old)
      begin
        Export.perform_now("one")
      rescue Plock::Guard::Conflict => e
        puts e.class
      end
      2.times { TOLD << nil }
      running.join
      Export.perform_now("one")
    RUBY
    expect(output).to eq("one\nfalse\nPlock::Guard::Conflict\none\n")
  end
end
