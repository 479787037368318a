# frozen_string_literal: true

require "parse/lock"

RSpec.describe "the errors of Parse::Lock" do
  it "descend from the application's own" do
    expect(Parse::Error.superclass).to be(StandardError)
    expect([Parse::Lock::TimeoutError, Parse::Lock::UnavailableError].map(&:superclass)).to all(
      be(Parse::Error)
    )
  end

  it "are not plock's" do
    expect(Parse::Lock::TimeoutError).not_to be <= Plock::Error
  end
end
