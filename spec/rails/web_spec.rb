# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "Plock::Web in an application of Rails" do
  include_context "with an application of Rails"

  before do
    app.configure("config.plock.url = 'memory:'")
    app.write("config/routes.rb", <<~RUBY)
      require "plock/web"

      Rails.application.routes.draw do
        admin = ->(request, _action) { request.get_header("HTTP_X_USER") }
        mount Plock::Web.new(authorize: admin) => "/locks"
      end
    RUBY
  end

  it "is mounted at its route, behind the application's hook" do
    expect(told(<<~'RUBY')).to eq("403\n200\ntrue\ntrue\n403\n303\nfalse\n")
      session = ActionDispatch::Integration::Session.new(Rails.application)
      session.host! "localhost"
      user = { "X-User" => "alice" }
      lease = Plock.acquire("import", label: "nightly import", ttl: 60)
      path = "/locks/locks/#{lease.store_key}/break"
      puts session.get("/locks")
      puts session.get("/locks/locks", headers: user)
      puts session.response.body.include?("nightly import")
      puts session.response.body.include?("/locks/locks/#{lease.store_key}")
      session.get(path, headers: user)
      form = session.response.body.scan(/type="hidden"\s+name="([^"]+)"\s+value="([^"]*)"/).to_h
      puts session.post(path, params: form.merge("token" => "x"), headers: user)
      puts session.post(path, params: form, headers: user)
      puts Plock.status("import").held?
    RUBY
  end
end
