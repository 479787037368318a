# frozen_string_literal: true

require "spec_helper"

# Each example runs in its own process, because Sidekiq::Testing changes Sidekiq for good.
RSpec.describe "Guarded jobs under Sidekiq::Testing" do
  before do
    Gem::Specification.find_by_name("sidekiq")
  rescue Gem::MissingSpecError
    skip "sidekiq not installed"
  end

  def run(program, mode)
    output, status = ruby(<<~RUBY, env: { "PLOCK_URL" => "memory:", "RACK_ENV" => "test" })
      $VERBOSE = nil
      require "plock/sidekiq"
      require "sidekiq/testing"
      Sidekiq::Testing.#{mode}!
      Sidekiq.default_configuration.logger.level = :warn
      def held = Plock.each_lock.map(&:label)
      class One
        include Sidekiq::Job
        include Plock::Guard
        guard_with key: "one"
        def perform(*) = puts("one \#{held.size}")
      end
      class Two
        include Sidekiq::Job
        include Plock::Guard
        guard_with key: "two", during: :queued_and_running
        def perform(*) = puts("two \#{held.size}")
      end
      class Three
        include Sidekiq::Job
        include Plock::Guard
        guard_with key: "three", during: :queued, on_conflict: :discard
        def perform(*) = puts("three \#{held.size}")
      end
      JOBS = [One, Two, Three]
      #{program}
      p held
    RUBY
    expect(status).to be_success, output
    output
  end

  it "leave no key behind in fake mode, whether they are run, cleared or forgotten" do
    expect(run(<<~RUBY, :fake)).to eq("[]\none 0\ntwo 0\n3\n[]\n")
      JOBS.each { |job| 2.times { job.perform_async(1) } }
      JOBS.each { |job| job.perform_in(10, 1) }
      p held
      One.perform_one
      Two.perform_one
      One.clear
      p Three.jobs.size
    RUBY
  end

  it "have their keys in fake mode where the middleware is told to take part" do
    expect(run(<<~RUBY, :fake)).to eq("one 1\ntwo 1\nthree 0\nPlock::Guard::Conflict\n[]\n")
      Sidekiq::Testing.server_middleware { |chain| chain.prepend(Plock::Sidekiq::ServerMiddleware) }
      JOBS.each { |job| job.perform_async(1) }
      Sidekiq::Job.drain_all
      One.perform_async(1)
      begin
        Plock.acquire("one") { One.drain }
      rescue Plock::Guard::Conflict => e
        puts e.class
      end
    RUBY
  end

  it "leave no key behind in inline mode" do
    output = run(<<~RUBY, :inline)
      JOBS.each { |job| job.perform_async(1) }
      Two.perform_bulk([[1], [1]])
      Sidekiq::Testing.server_middleware { |chain| chain.prepend(Plock::Sidekiq::ServerMiddleware) }
      JOBS.each { |job| job.perform_async(1) }
    RUBY
    expect(output).to eq("one 0\ntwo 0\nthree 0\ntwo 0\ntwo 0\none 1\ntwo 1\nthree 0\n[]\n")
  end

  it "are queued as ever while it is disabled" do
    expect(run(<<~RUBY, :disable)).to match(/\ARedisClient::CannotConnectError\n\[\]\n\z/)
      Sidekiq.default_configuration.redis = { url: "redis://127.0.0.1:1", timeout: 0.2 }
      begin
        Two.perform_async(1)
      rescue => e
        puts e.class
      end
    RUBY
  end
end
