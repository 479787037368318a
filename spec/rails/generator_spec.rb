# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "bin/rails generate plock:install" do
  include_context "with an application of Rails"

  it "writes settings that say what can be said, and that the application starts with" do
    output, status = app.rails("generate", "plock:install")
    expect(status).to be_success, output
    expect(output).to match(%r{create +config/plock.yml$}).and match(
      %r{create +config/initializers/plock.rb$}
    )

    expect(told("puts Plock.acquire('k') { |lease| lease.store_key }")).to start_with(
      "plock:v1:shop"
    )
    expect(
      told(
        "puts Plock.store.url",
        environment: "development",
        env: {
          "PLOCK_URL" => "redis://localhost:7001"
        }
      )
    ).to start_with("local:")
    production = { "SECRET_KEY_BASE" => "0" * 64 }
    expect(app.runner("Plock.store", environment: "production", env: production).first).to include(
      "Plock has no store, and RAILS_ENV says production"
    )
    local =
      app.runner(
        "puts Plock.store.url",
        environment: "production",
        env: {
          "PLOCK_URL" => "local:", **production
        }
      ).first
    expect(local).to start_with("local:/") # unlike in plock.yml, local: needs no quotes
    output, =
      app.runner(
        "puts Plock.store.url",
        environment: "production",
        env: {
          "PLOCK_URL" => "redis://localhost:7001", **production
        }
      )
    expect(output).to eq("redis://localhost:7001\n")
  end

  it "writes nothing that does not work when it is no longer a comment" do
    app.rails("generate", "plock:install")
    app.write(
      "config/initializers/plock.rb",
      app
        .read("config/initializers/plock.rb")
        .gsub(/^( *)# (?=config\.|ActiveSupport)/, '\1')
        .sub(/Redis\.new.*$/, '"memory:"')
        .sub(/Rails.application.credentials.plock_secret/, "'s' * 16")
    )
    app.write("config/plock.yml", app.read("config/plock.yml").gsub(/^  # /, "  "))
    expect(told("Plock.acquire('k', on_lost: ->(_) {}) { Plock.store.lose!('k') }; " \
                "Plock.acquire('k') { |lease| Plock.break('k') }")).to be_empty
    expect(app.log).to match(/\[locks\] \[Plock\] the lease on "k"/)
    output, =
      app.runner(
        "puts Plock.store.url",
        environment: "production",
        env: {
          "SECRET_KEY_BASE" => "0" * 64, "PLOCK_SECRET" => "s" * 16
        }
      )
    expect(output).to include("pool_size is of no use to a store in memory")
  end
end
