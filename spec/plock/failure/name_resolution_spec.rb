# frozen_string_literal: true

require "spec_helper"
require "support/failures"
require "support/slow_resolver"

RSpec.describe "A host name" do
  include Support::Failures

  let(:log) { File.join(Support::Supervisor.folder, "lookups-#{SecureRandom.hex(4)}") }

  # Runs the program with a store on this host, and returns its output.
  def with_slow_names(host, program, query: nil)
    environment = Support::SlowResolver.environment(log) or skip "needs Linux, and a C compiler"
    url = shared_redis.url(query, host: host)
    output, status = ruby(<<~RUBY, url, unique_key, env: environment)
      require "plock"
      store = Plock::Store.open(ARGV[0])
      key = ARGV[1]
      now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
      try = -> { store.lock_acquire(key, Plock.token, 1) rescue $!.code }
      #{program}
    RUBY
    expect(status).to be_success, output
    output
  end

  def lookups = File.exist?(log) ? File.readlines(log, chomp: true) : []

  it "that does not exist is a typed error" do
    error = attempt_failure(open_store("redis://nowhere.invalid:6379", attempt_timeout: 5.0))
    expect(error).to be_a(Plock::UnavailableError)
    expect(error.code).to eq(:resolve)
    expect(error.message).to include("nowhere.invalid")
  end

  it "is resolved, and every address of it is tried" do
    # On most machines, localhost resolves to ::1 first, but the server listens only on 127.0.0.1.
    expect_service(open_store(shared_redis.url(host: "localhost")))
  end

  it "that takes a while is waited for, without the GVL" do
    patient = "attempt_timeout=5&connect_timeout=5"
    output = with_slow_names("slow-500.test", <<~RUBY, query: patient)
      ticks = 0
      ticker = Thread.new { loop { sleep 0.005; ticks += 1 } }
      before = ticks
      p try.call, ticks > before + 5
    RUBY
    expect(output).to eq("true\ntrue\n")
  end

  it "that takes too long does not outlast the budget: the lookup is abandoned", :timing do
    at_most(0.2 + Support::Patience::MARGIN, least: 0.2) do
      Float(with_slow_names("slow-5000.test", "start = now.call; try.call; puts now.call - start"))
    end
  end

  it "is looked up once for many threads, and an abandoned lookup serves later callers" do
    output = with_slow_names("slow-2000.test", <<~RUBY)
      p Array.new(10) { Thread.new(&try) }.map(&:value).uniq
      store = Plock::Store.open(ARGV[0] + "?attempt_timeout=20&connect_timeout=20")
      p try.call
    RUBY
    expect(output).to eq("[:resolve]\ntrue\n")
    expect(lookups).to eq(%w[start end])
  end

  it "that is being looked up does not hold up the end of the process", :timing do
    within(1.5) { with_slow_names("slow-5000.test", "try.call") }
  end

  it "of one store does not hold up another store" do
    other = shared_redis.url
    output = with_slow_names("slow-3000.test", <<~RUBY)
      slow = Thread.new(&try)
      p Plock::Store.open(#{other.inspect}).hold(key, 1_000, 1.0, nil) { slow.alive? }
    RUBY
    expect(output).to eq("true\n")
  end
end
