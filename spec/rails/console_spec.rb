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

  def console(input)
    app.rails("console", "-e", "test", "--", "--nocolorize", "--noreadline", input: input)
  end

  it "has plock, which shows locks, waiters and what the doctor finds, and changes nothing" do
    server = redis_server
    app.configure("config.plock.url = #{server.unix_url.inspect}")
    output, status = console("plock\n")
    expect(status).to be_success, output
    expect(output).to match(/^#{Regexp.escape(server.unix_url)}\nno key is held\ndoctor: \d+ ok/)
      .and match(/advice \(.*secret.*\), \d DANGER \(.*persistence/)

    store = open_store(server.unix_url)
    discard(store.acquire("import", ttl: 120, label: "night"), :release)
    discard(store.semaphore("api", permits: 2).acquire(ttl: 120, label: "seat"), :release)
    waiter = background { store.acquire("import", wait: 120, label: "late") { nil } }
    eventually(5) { store.status("import").waiters.any? }
    before = server.call("KEYS", "*").sort
    output, = console("plock\n")
    expect(output).to match(/STORE KEY +KIND .*WAITING$/)
      .and match(/ lock +1 +"night" .* 1$/).and match(/ semaphore +1 +"seat" .* 0$/)
      .and match(/^waits 1 .* late /)
    expect(server.call("KEYS", "*").sort).to eq(before)
    waiter.kill
  end

  it "has plock under Pry, too" do
    skip "pry not installed" if Gem::Specification.find_all_by_name("pry").empty?
    server = redis_server
    app.use(gems: ["pry"])
    app.configure("config.plock.url = #{server.unix_url.inspect}")
    app.configure(<<~RUBY)
      config.console = Pry.tap do |pry|
        pry.config.pager = pry.config.color = false
        pry.config.input = $stdin # Reline would take the lines of a pipe for one paste
      end
    RUBY
    store = open_store(server.unix_url)
    discard(store.acquire("import", ttl: 120, label: "night"), :release)
    output, status = app.rails(
      "console", "-e", "test",
      input: "plock\nPlock.status('import')\nplock(Plock::Store.open('memory:'))\n[Pry.name, 1]\n"
    )
    expect(status).to be_success, output
    expect(output).to match(/=> #{Regexp.escape(server.unix_url)}\nSTORE KEY .*WAITING$/)
      .and match(/ lock +1 +"night" .* 0\ndoctor: \d+ ok/)
      .and match(/=> "import": held\n.*\nholder +\S+ .* night /)
      .and match(/=> memory:\nno key is held\ndoctor: /)
      .and include('=> ["Pry", 1]')
  end

  it "has plock say which store is away, and look at other stores" do
    app.configure("config.plock.url = 'redis://127.0.0.1:1'")
    output, = console("plock\nplock(Plock::Store.open('memory:'))\n")
    expect(output).to match(/the locks cannot be listed: .*127.0.0.1:1/)
      .and match(/doctor: the store cannot be asked: .*127.0.0.1/)
      .and match(/memory:\nno key is held\ndoctor: .*DANGER \(server\)/)
  end
end
