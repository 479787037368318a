# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "The log of an application of Rails" do
  include_context "with an application of Rails"

  before { app.configure("config.plock.url = 'memory:'") }

  it "tells what happens to leases, by their labels, or else by digests of their keys" do
    told(<<~RUBY)
      Plock.acquire("a@example.org", label: "import:42") do
        Thread.new { Plock.try_acquire("a@example.org", label: "import:42") { nil } }.join
      end
      Plock.acquire("b@example.org") { nil }
      Plock.acquire("c", label: "with\\na line", on_lost: ->(_) {}) { Plock.store.lose!("c") }
      Plock.read_write_lock("d").read(label: "page") { nil }
    RUBY
    digest = Plock.digest("b@example.org")[0, 12]
    expect(app.log.lines(chomp: true)).to match(
      [/\APlock acquired import:42 in \d+\.\d ms, fence \d+\z/,
       /\APlock waited \d+\.\d ms for import:42, which another holder had\z/,
       /\APlock gave up import:42 after \d+\.\d ms\z/,
       /\APlock released import:42 after \d+\.\d ms, fence \d+\z/,
       /\APlock acquired key #{digest} in \d+\.\d ms, fence \d+\z/,
       /\APlock released key #{digest} after \d+\.\d ms, fence \d+\z/,
       /\APlock acquired with\\na line in/,
       /\APlock lost with\\na line after \d+\.\d ms, fence \d+: another holder may have it now\z/,
       /\APlock released with\\na line after .*, which was not ours any more\z/,
       /\APlock acquired page to read in /, /\APlock released page to read after /]
    )
    expect(app.log).not_to include("example.org")
  end

  it "is spared the daily round above the level debug" do
    app.configure("config.log_level = :info")
    told(<<~RUBY)
      Plock.acquire("k", label: "one") {
        Thread.new { Plock.try_acquire("k", label: "two") { nil } }.join
      }
      Plock.acquire("c", label: "three", on_lost: ->(_) {}) { Plock.store.lose!("c") }
    RUBY
    expect(app.log.lines.map { |line| line[/\APlock (\w+ )+?(two|three)/] }).to eq(
      ["Plock gave up two", "Plock lost three"]
    )
  end
end
