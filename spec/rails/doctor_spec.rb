# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "bin/rails plock:doctor" do
  include_context "with an application of Rails"

  let(:server) { redis_server }

  def doctor(task = "plock:doctor") = app.rails(task, env: { "RAILS_ENV" => "test" })

  it "looks at the store of the application, as it is configured" do
    app.configure("config.plock.url = #{server.unix_url.inspect}")
    app.configure("config.plock.secret = 'the secret of all processes'")
    output, status = doctor
    expect(output).to match(/^#{Regexp.escape(server.unix_url)}\n/)
      .and match(/^  ok       secret: keys are hashed with a secret$/)
      .and match(/^  DANGER   persistence: .*\n           \S/)
    expect(status.exitstatus).to be(1)
    expect(server.call("KEYS", "plock:v1:*")).to be_empty

    output, status = doctor("plock:doctor[persistence,replication]")
    expect(output).to match(/^  accepted persistence: /)
    expect(status.exitstatus).to be(0), output
  end

  it "looks at any store, and says what it cannot look at" do
    expect(doctor).to match(
      [%r{^local:/.*^  ok       trial: .*^  advice   secret: }m, have_attributes(exitstatus: 0)]
    )
    app.write("config/plock.yml", "test:\n  url: 'memory:'\n")
    expect(doctor).to match(
      [/^  DANGER   server: .*exclude no other process/, have_attributes(exitstatus: 1)]
    )
    app.write("config/plock.yml", "test:\n  url: redis://127.0.0.1:99999\n")
    expect(doctor).to match([/plock: .*port/, have_attributes(exitstatus: 64)])
    app.write("config/plock.yml", "test:\n  url: redis://127.0.0.1:1\n")
    expect(doctor).to match([/plock: .*127.0.0.1/, have_attributes(exitstatus: 69)])
    expect(doctor("plock:doctor[clocks]").first).to include("there is no check \"clocks\"")
  end
end
