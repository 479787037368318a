# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

# The application has `gem "plock"` in its Gemfile, and requires nothing.
RSpec.describe "Plock::Guard in an application of Rails" do
  include_context "with an application of Rails"

  before do
    app.use("active_job", gems: %w[activejob sidekiq]) # puts these gems after plock
    app.configure("config.plock.url = 'memory:'")
    app.configure("config.active_job.queue_adapter = :inline")
    app.write("app/jobs/import.rb", <<~RUBY)
      class Import
        include Sidekiq::Job
        include Plock::Guard
        guard_with key: ->(name) { name }, on_conflict: :retry

        def perform(name) = puts("import \#{Plock.status(name).held?}")
      end
    RUBY
    app.write("app/jobs/export.rb", <<~RUBY)
      class Export < ActiveJob::Base
        include Plock::Guard
        guard_with key: ->(name) { name }, on_conflict: :retry,
                   store: -> { Plock::Store.open("memory:exports") }

        def perform(name)
          exports = Plock::Store.open("memory:exports")
          puts("export \#{exports.status(name).held?} \#{Plock.status(name).held?}")
        end
      end
    RUBY
  end

  it "guards jobs of both kinds" do
    app.write(
      "config/initializers/sidekiq.rb", "Sidekiq.default_configuration.logger.level = Logger::WARN"
    )
    expect(told(<<~RUBY)).to eq("import true\nexport true false\nPlock::Guard::Conflict\n")
      Import.perform_inline("k")
      Export.perform_later("k")
      begin
        Plock.acquire("k") { Import.perform_inline("k") }
      rescue Plock::Guard::Conflict => e
        puts e.class
      end
    RUBY
  end

  it "is in place before a class of jobs is loaded" do
    middleware = "Sidekiq.default_configuration.server_middleware"
    expect(told("puts #{middleware}.exists?(Plock::Sidekiq::ServerMiddleware)")).to eq("true\n")
  end

  it "stops no application that has an older Sidekiq, and no guards" do
    app.write(
      "config/initializers/older.rb",
      "Sidekiq.send(:remove_const, :VERSION); Sidekiq::VERSION = '7.2.4'"
    )
    expect(app.runner("Import").first).to match(
      /guard_with: Import is not a class of jobs that plock can guard/
    )
    app.remove("app/jobs")
    expect(told("puts Plock.acquire('k') { :ran }, ActiveJob::Base")).to eq(
      "ran\nActiveJob::Base\n"
    )
  end

  it "guards jobs whose classes are all loaded at the start, as in production" do
    app.configure("config.eager_load = true")
    app.write(
      "config/initializers/sidekiq.rb", "Sidekiq.default_configuration.logger.level = Logger::WARN"
    )
    expect(told("Import.perform_inline('k')")).to eq("import true\n")
  end
end
