# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "bin/rails plock:locks" do
  include_context "with an application of Rails"

  let(:server) { redis_server }

  def locks(task = "plock:locks") = app.rails(task, env: { "RAILS_ENV" => "test" })

  before do
    app.configure("config.plock.url = #{server.unix_url.inspect}")
    app.configure("config.plock.namespace = 'billing'")
  end

  it "lists what the store of the application has, by label and by name" do
    expect(locks).to match(["no key is held\n", be_success])
    store = open_store(server.unix_url, namespace: "billing")
    discard(store.acquire("invoice:7", ttl: 60, label: "invoices"), :release)
    discard(store.acquire("import", ttl: 60), :release)
    output, = locks
    expect(output.lines.size).to eq(3)
    expect(output).to match(/"invoices".*#{Process.pid}/).and include("HOLDERS", "WAITING")
    expect(locks("plock:locks[inv*]").first.lines.size).to eq(2)
    expect(locks("plock:locks[import]").first.lines.size).to eq(2)
  end

  it "says which server is away" do
    server.stop
    away = /plock: .*#{Regexp.escape(server.unix_url)}/
    expect(locks).to match([away, have_attributes(exitstatus: 69)])
  end
end
