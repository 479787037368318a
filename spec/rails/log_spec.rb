# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "The log of an application of Rails" do
  include_context "with an application of Rails"

  before { app.configure("config.plock.url = 'memory:'") }

  let(:each_outcome) { <<~RUBY }
    Plock.acquire("a@example.org", label: "import:42") do
      Thread.new { Plock.try_acquire("a@example.org", label: "import:42") { nil } }.join
    end
    Plock.acquire("b@example.org") { nil }
    Plock.acquire("c", label: "with\\na line", on_lost: ->(_) {}) { Plock.store.lose!("c") }
    Plock.read_write_lock("d").read(label: "page") { nil }
    dump = Plock.acquire("e", label: "handed", ttl: 60).dump
    Plock.adopt(dump, label: "got") { nil }
  RUBY

  it "has one line for each outcome, by labels, or else by digests of keys" do
    app.configure("config.colorize_logging = false")
    told(each_outcome)
    digest = Plock.digest("b@example.org")[0, 12]
    expect(app.log.lines(chomp: true)).to match(
      [/\A  Plock acquired \(\d+\.\dms\)  import:42  kind=lock fence=\d+ ttl=10\z/,
       /\A  Plock timeout \(\d+\.\dms\)  import:42  kind=lock wait=0\z/,
       /\A  Plock released \(\d+\.\dms\)  import:42  kind=lock fence=\d+\z/,
       /\A  Plock acquired \(\d+\.\dms\)  key #{digest}  kind=lock /,
       /\A  Plock released \(\d+\.\dms\)  key #{digest}  kind=lock /,
       /\A  Plock acquired \(\d+\.\dms\)  "with\\u000aa line"  kind=lock /,
       /\A  Plock lost \(\d+\.\dms\)  "with\\u000aa line"  kind=lock fence=\d+\z/,
       /\A  Plock acquired \(.*  page  kind=read_write fence=\d+ ttl=10 mode=read\z/,
       /\A  Plock released \(.*  page  kind=read_write fence=\d+ mode=read\z/,
       /\A  Plock acquired \(.*  handed  /, /\A  Plock handed over  handed  kind=lock fence=\d+\z/,
       /\A  Plock adopted  got  kind=lock /, /\A  Plock released \(.*  got  /]
    )
    expect(app.log).not_to include("example.org")
  end

  it "makes no configuration, since another thread may be making one" do
    output = told(<<~RUBY)
      store = Plock.store
      Plock.instance_variable_set(:@configuration, nil)
      store.acquire("k", label: "import") { nil }
      p Plock.instance_variable_get(:@configuration)
    RUBY
    expect([output, app.log]).to match(["nil\n", /acquired .*import/])
  end

  it "has the colours of Rails, and marks slow waits and long holds" do
    app.configure("config.plock.log = { long_hold: 0 }")
    told(each_outcome)
    line = /^  \e\[1m\e\[(\d+)mPlock (\w+)[^\e]*\e\[0m  \e\[1m[^\e]+\e\[0m  kind=/
    expect(app.log.scan(line).uniq).to eq(
      [%w[32 acquired], %w[33 timeout], %w[33 released], %w[31 lost], %w[32 handed],
       %w[32 adopted]]
    )
    expect(app.log.lines.grep(/released/)).to all(end_with(" long=true\n"))
  end

  it "has the keys, too, with log_keys: true" do
    app.configure("config.plock.log = { log_keys: true }")
    app.configure("config.colorize_logging = false")
    told('Plock.acquire("b@example.org") { nil }; Plock.acquire("a b", label: "import") { nil }')
    expect(app.log.lines.map { |line| line[/\)  (.*?)  kind/, 1] }).to eq(
      ["b@example.org"] * 2 + ["import \"a b\""] * 2
    )
  end

  it "costs an acquire and a release no event above the level debug" do
    app.configure("config.log_level = :info")
    app.configure("config.colorize_logging = false")
    expect(told(<<~RUBY)).to eq("[false, false, true, true]\n")
      Plock.acquire("k", label: "one") {
        Thread.new { Plock.try_acquire("k", label: "two") { nil } }.join
      }
      Plock.acquire("c", label: "three", on_lost: ->(_) {}) { Plock.store.lose!("c") }
      bridge = Plock::Events::ActiveSupportBridge
      p %i[acquire release timeout lost].map { |name| bridge.wants?(name) }
    RUBY
    expect(app.log.lines.map { |line| line[/Plock \w+/] }).to eq(["Plock timeout", "Plock lost"])
  end
end
