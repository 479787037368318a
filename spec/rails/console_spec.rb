# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "bin/rails console" do
  include_context "with an application of Rails"

  it "shows a status as a table" do
    app.configure("config.plock.url = #{shared_redis.unix_url.inspect}")
    key = "import:#{SecureRandom.hex(4)}"
    store = open_store
    lease = discard(store.acquire(key, ttl: 120, label: "the night's import"), :release)
    waiter = background { store.acquire(key, wait: 120, label: "too late") { nil } }
    eventually(5) { store.status(key).waiters.any? }
    output, status =
      app.rails(
        "console", "-e", "test", "--", "--nocolorize", "--noreadline",
        input: "Plock.status(#{key.inspect})\n"
      )
    expect(status).to be_success, output
    rows = output.lines.drop_while { |line| !line.include?("#{key.inspect}: held") }.map(&:split)
    expect(rows[1]).to eq(%w[host pid thread label since fence left])
    expect(rows[2]).to include("holder", Process.pid.to_s, "night's", lease.fence.to_s)
    expect(rows[3]).to include("waits", "1", Process.pid.to_s, "too", "late", "-")
    waiter.kill
  end
end
