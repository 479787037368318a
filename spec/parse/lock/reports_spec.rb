# frozen_string_literal: true

require "spec_helper"
require "parse/lock"

RSpec.describe Parse::Lock::Reports do
  it "tells of a store that failed, by what was being done" do
    error = Plock::UnavailableError.new("not there", code: :connect)
    expect(warnings { described_class.call(:acquire, error) })
      .to eq ["[Parse::LockBackend] acquire error (Plock::UnavailableError): not there\n"]
    expect(warnings { described_class.call(:release, error) })
      .to eq ["[Parse::LockBackend] release error (Plock::UnavailableError): not there\n"]
  end

  it "tells of an overrun with two decimals, and what it means" do
    heard = warnings { described_class.call(:overrun, "a \"key\"", 3.14159, 3.0) }
    expect(heard.size).to be(1)
    expect(heard.first).to start_with(
      '[Parse::Lock] critical section for "a \\"key\\"" ran 3.14s, exceeding ttl: 3s'
    ).and include("Mutual exclusion was NOT guaranteed", "Raise ttl:")
  end
end
