# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "Settings of an application of Rails" do
  include_context "with an application of Rails"

  it "need nothing where PLOCK_URL is set" do
    expect(told("puts Plock.acquire('k', wait: 1) { |lease| lease.valid? }", env: { "PLOCK_URL" => shared_redis.unix_url })).to eq("true\n")
  end

  it "are read from config/plock.yml, for each environment" do
    app.write("config/plock.yml", <<~YAML)
      shared:
        namespace: billing
        options:
          pool_size: 3
      development:
        url: redis://localhost:7001/1
      test:
        url: <%= ENV.fetch("LOCKS") %>
        ttl: 30
        secret:
        options:
          verify: none
    YAML
    expect(told("puts Plock.store.url, Plock.store.unverified?", environment: "development", env: { "LOCKS" => "" }))
      .to eq("redis://localhost:7001/1\nfalse\n")
    expect(told(<<~RUBY, env: { "LOCKS" => "rediss://localhost:7002" })).to match(%r{^rediss://localhost:7002\ntrue\nplock:v1:billing:})
      puts Plock.store.url, Plock.store.unverified?, Plock.store.send(:profile).store_key("k")
    RUBY
  end

  it "in config.plock go before the file, and what is nil does not" do
    app.write("config/plock.yml", "test:\n  url: redis://localhost:7001\n  namespace: file\n  ttl: 7\n")
    app.configure("config.plock.url = 'memory:'")
    app.configure("config.plock.ttl = nil")
    expect(told("Plock.acquire('k') { |lease| puts lease.ttl, lease.store_key }")).to match(/\A7.0\nplock:v1:file:\h{64}\n\z/)
  end

  it "may be given by initializers, in both ways" do
    app.write("config/plock.yml", "test:\n  url: redis://localhost:7001\n  ttl: 7\n  namespace: file\n")
    app.write("config/initializers/locks.rb", <<~RUBY)
      Plock.configure { |c| c.url = "memory:" }
      Rails.application.config.plock.ttl = 8
    RUBY
    expect(told("Plock.acquire('k') { |lease| puts lease.ttl, lease.store_key }")).to match(/\A8.0\nplock:v1:file:/)
  end

  it "that there are not stop the application, by name" do
    app.configure("config.plock.uri = 'memory:'")
    expect(app.runner("1").first).to include("config.plock has no uri; there are url, secret,")
  end

  it "that there are not stop it in the file, too" do
    app.write("config/plock.yml", "test:\n  pool_size: 4\n")
    expect(app.runner("1").first).to match(%r{config/plock.yml has no pool_size; there are url, .*\(Plock::ConfigurationError\)})
  end

  it "that are no settings stop it" do
    app.write("config/plock.yml", "test: redis://localhost\n")
    expect(app.runner("1").first).to match(%r{config/plock.yml must have names and values for test})
  end

  it "come too late once the store is in use" do
    app.configure("Plock.configure { |c| c.url = 'memory:' }; Plock.store")
    app.configure("config.plock.ttl = 3")
    expect(app.runner("1").first).to include("call Plock.configure before the first lock")
  end

  it "have the application's logger hear what cannot be raised" do
    app.configure("config.plock.url = 'memory:'")
    told("Plock.acquire('k') { Plock.break('k') }")
    expect(app.log).to match(/\[Plock\] the lease on "k" .* is lost before its block ended/)
  end
end
