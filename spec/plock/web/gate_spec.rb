# frozen_string_literal: true

require "spec_helper"
require "plock/web"
require "plock/web/gate"
require "rack/mock"

RSpec.describe Plock::Web::Gate do
  it "tells the terminal of a failure, and not the browser" do
    gate = described_class.new(->(_env) { raise "details" })
    browser = Rack::MockRequest.new(gate)
    entered = browser.get("/?token=#{gate.token}", "HTTP_HOST" => "localhost")
    answer = browser.get(entered["location"], "HTTP_HOST" => "localhost",
                                              "HTTP_COOKIE" => entered["set-cookie"][/[^;]+/])
    expect([answer.status, answer.body]).to match [500, /terminal says how/]
    expect(answer.body).not_to include "details"
    expect(answer.errors).to include("RuntimeError: details", __FILE__)
  end
end
