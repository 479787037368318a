# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "bin/rails plock:secret" do
  include_context "with an application of Rails"

  let(:server) { redis_server }

  def secret(task = "plock:secret") = app.rails(task, env: { "RAILS_ENV" => "test" })

  it "compares the secret of the application with that of others, and replaces it" do
    app.configure("config.plock.url = #{server.unix_url.inspect}")
    app.configure("config.plock.secret = 'the secret of all processes'")
    open_store(server.unix_url).acquire("k") { nil }
    expect(app.runner("Plock.acquire('k') { puts 'ran' }").first).to match(
      /Plock::ConfigurationError.*came first/m
    ).or match(/came first.*Plock::ConfigurationError/m)
    output, status = secret
    expect([output, status.exitstatus]).to match(
      [/^here:  fingerprint \h{16}, from the configuration.*\nthere: no secret, noted/, 1]
    )
    expect(secret("plock:secret[replace]").first).to include("pass --yes")
    expect(secret("plock:secret[replace,yes]").last).to be_success
    expect(told("Plock.acquire('k') { puts 'ran' }")).to eq("ran\n")
  end
end
