# frozen_string_literal: true

require "logger"
require "open3"
require "spec_helper"
require "support/observed"
require "stringio"
require "tmpdir"

RSpec.describe Plock::Logs do
  include Support::Observed

  after { described_class.stop }

  let(:key) { "logs:#{SecureRandom.hex(8)}" }
  let(:output) { StringIO.new }
  let(:logger) { Logger.new(output, formatter: ->(level, _, _, line) { "#{level} #{line}\n" }) }

  def logging(**options) = described_class.start(level: :debug, to: logger, **options)

  # The lines of the log, without those about leases of earlier examples.
  def lines = output.string.lines(chomp: true).grep_v(/expired=true/)

  # The fields of a line, except those with quoted values.
  def fields(line) = line.scan(/(\w+)=(\S+)/).to_h.transform_keys(&:to_sym)

  def outcomes = lines.map { |line| "#{line[/\A\w+/]} #{fields(line)[:event]}" }

  in_each_place do
    it "have one line for each outcome, in logfmt, with its level" do
      store
      logging
      fence = nil
      store.acquire(key, label: "nightly import") do |lease|
        fence = lease.fence
        store.try_acquire(key)
      end
      expect(lines).to match(
        [
          /\ADEBUG event=acquired label="nightly import" kind=lock digest=\h{12} waited=0\.\d+ /,
          /\AINFO event=timeout kind=lock digest=\h{12} waited=\d\S* wait=0\z/,
          /\ADEBUG event=released label="nightly import" kind=lock .* held=\S+ fence=#{fence}\z/
        ]
      )
      expect(lines.first).to end_with(" fence=#{fence} ttl=10")
      expect(output.string).not_to include(key)
    end

    it "tell of a loss at the level error, once" do
      store
      logging
      warnings { store.acquire(key) { store.break(key) } }
      expect(outcomes).to eq(["DEBUG acquired", "ERROR lost"])
      expect(fields(lines.last)).to include(:held, :fence)
    end

    it "tell of a lease that was forgotten, handed over or adopted" do
      logging
      dump = store.acquire(key, ttl: 30).dump
      store.adopt(dump) { nil }
      Thread.new { store.acquire("#{key}+", ttl: 30) }.join
      warnings { eventually { GC.start || outcomes.include?("WARN abandoned") } }
      expect(outcomes).to eq(
        ["DEBUG acquired", "DEBUG handed_over", "DEBUG adopted", "DEBUG released",
         "DEBUG acquired", "WARN abandoned"]
      )
    end

    it "tell of a call that was killed or interrupted" do
      holder = store.acquire(key, ttl: 30)
      logging
      waiters = Array.new(2) { background { store.acquire(key, wait: 30) { nil } } }
      eventually { store.status(key).waiters.size == 2 }
      waiters.first.kill.join
      waiters.last.raise(Interrupt)
      expect { waiters.last.value }.to raise_error(Interrupt)
      holder.release
      failed = lines.grep(/event=failed/)
      expect(failed).to all(start_with("WARN "))
      expect(failed.map { |line| fields(line)[:error] }).to eq(%w[interrupted Interrupt])
    end

    it "write in a forked child" do
      store
      logging
      seen = in_child { store.acquire(key) { nil } || outcomes }
      expect(seen).to eq(["DEBUG acquired", "DEBUG released"])
    end
  end

  it "tell of a late renewal, a failed release and a failed call" do
    suffer(key) { logging }
    expect(outcomes).to eq(
      ["DEBUG acquired", "WARN renewal_late", "WARN release_failed", "WARN failed"]
    )
    expect(lines.drop(2)).to all(match(/ error=Plock::UnavailableError/))
    expect(fields(lines[1])[:left].to_f).to be < 1.0
  end

  describe "the level" do
    let(:store) { open_store("memory:") }

    it "decides which outcomes are logged" do
      %i[debug info warn error].each do |level|
        logging(level: level, slow_wait: nil)
        store.acquire(key) { store.try_acquire(key) }
      end
      expect(outcomes).to eq(
        ["DEBUG acquired", "INFO timeout", "DEBUG released", "INFO timeout"]
      )
    end

    it "is warn for a slow wait and for a long hold, from the thresholds on" do
      logging(level: :info, slow_wait: 0.2, long_hold: 0.2)
      store.acquire(key) { nil }
      store.acquire(key, ttl: 30) do |lease|
        store.try_acquire(key, wait: 0.25)
        store.try_acquire(key)
        eventually { lease.held_for > 0.25 }
      end
      expect(lines).to match(
        [
          /\AWARN event=timeout .* wait=0\.25 slow=true\z/, /\AINFO event=timeout .* wait=0\z/,
          /\AWARN event=released .* long=true\z/
        ]
      )
      output.truncate(0)
      held = store.acquire(key, ttl: 30)
      waiter = background { store.acquire(key, wait: 30) { nil } }
      eventually { held.held_for > 0.25 && store.status(key).waiters.any? }
      since = monotonic
      eventually { monotonic - since > 0.25 }
      held.release
      waiter.join
      expect(lines.grep(/acquired/)).to match([/WARN event=acquired .* slow=true\z/])
    end

    it "is never warn if there are no thresholds" do
      logging(slow_wait: nil, long_hold: nil)
      store.acquire(key) { store.try_acquire(key, wait: 0.01) }
      expect(lines.grep(/WARN/)).to be_empty
      logging(slow_wait: 0, long_hold: 0)
      store.acquire(key) { nil }
      expect(lines.grep(/WARN/).size).to be(2)
    end
  end

  it "have the key only with log_keys: true" do
    store = open_store("memory:")
    logging
    store.acquire(key) { store.try_acquire(key) }
    expect(output.string).not_to include(key)
    logging(log_keys: true)
    store.acquire(key) { store.try_acquire(key) }
    store.acquire_all([key, "#{key}+"]) { nil }
    expect(lines.drop(3)).to all(match(/ digest=\h+ key=#{key}\+? /))
  end

  it "keep each outcome on one line, whatever the label and the key are" do
    logging(log_keys: true)
    store = open_store("memory:")
    names = ["a\nevent=lost \"b\" \\c", "é=ü", "\xFF\0".b, "plain", "a\u2028event=lost",
             "a\u2029b", "\u202Eb"]
    names.each { |name| store.acquire(name, label: name.dup.force_encoding("UTF-8").scrub) { nil } }
    expect(lines.size).to be(2 * names.size)
    acquired = lines.grep(/event=acquired/)
    expect(acquired[0]).to include('label="a\u000aevent=lost \"b\" \\\\c" kind')
    expect(acquired[1]).to include('key="é=ü"')
    expect(acquired[3]).to include(" key=plain ")
    expect(acquired[4]).to include('label="a\u2028event=lost" kind')
    expect(acquired[5]).to include('label="a\u2029b" kind')
    expect(acquired[6]).to include('label="\u202eb" kind')
    expect(output.string).to be_valid_encoding
  end

  it "write to the standard error stream, with time, level and process, if there is no logger" do
    heard = []
    allow($stderr).to receive(:write) { |text| heard << text }
    described_class.start(level: :debug)
    open_store("memory:").acquire(key) { nil }
    described_class.stop
    RSpec::Mocks.space.proxy_for($stderr).reset
    expect(heard).to match(
      [
        /\Ats=\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z level=debug pid=#{Process.pid} event=acquired.*\n\z/,
        / event=released /
      ]
    )
  end

  it "do not affect the lock if the logger raises, and stop when they are told to" do
    store = open_store("memory:")
    described_class.start(level: :debug, to: logger)
    allow(logger).to receive(:debug).and_raise(IOError, "the disk is full")
    heard = warnings { expect(store.acquire(key) { :value }).to be(:value) }
    expect(heard.first).to match(/a subscriber to acquire raised IOError: the disk is full/)
    expect([described_class.stop, described_class.stop]).to eq([true, false])
    expect(Plock::Events.wanted?(:acquire)).to be(false)
  end

  it "are written once after a second start" do
    2.times { logging }
    open_store("memory:").acquire(key) { nil }
    expect(outcomes).to eq(["DEBUG acquired", "DEBUG released"])
  end

  it "refuse settings that are not as described" do
    {
      { level: "loud" } => /log level must be one of debug, info, warn, error \(got "loud"\)/,
      { level: :info, log_keys: "yes" } => /log log_keys must be true or false/,
      { level: :info, slow_wait: -1 } => /log slow_wait must be a number of seconds/,
      { level: :info, long_hold: "1" } => /log long_hold must be a number of seconds/
    }.each do |options, message|
      expect { described_class.start(**options) }
        .to raise_error(Plock::ConfigurationError, message)
    end
    expect { Plock.configure { |c| c.log = { levle: :info } } }
      .to raise_error(Plock::ConfigurationError, /log has no levle; there are level, log_keys/)
  ensure
    Plock.reset!
  end

  describe "turned on" do
    def logged(program, env: {})
      output, status = ruby(<<~RUBY, env: env)
        require "logger"
        require "plock"
        #{program}
      RUBY
      expect(status).to be_success, output
      output
    end

    use = 'Plock::Store.open("memory:").acquire("the key") { nil }'
    two = /\Ats=.* event=acquired .*\nts=.* event=released .*\n\z/

    it "by PLOCK_LOG, from the first store on" do
      expect(logged(use, env: { "PLOCK_LOG" => "debug" })).to match(two)
      expect(logged(use, env: { "PLOCK_LOG" => "info" })).to eq("")
    end

    it "not without it, nor if it is empty; then the file is not loaded" do
      told = "p Plock.autoload?(:Logs).nil?, Plock::Events.listening"
      expect(logged("#{use}; #{told}")).to eq("false\nnil\n")
      expect(logged("#{use}; p Plock::Events.listening", env: { "PLOCK_LOG" => "" })).to eq("nil\n")
    end

    it "by no other value: a warning says so, and the program goes on" do
      expect(logged("#{use}; puts :done", env: { "PLOCK_LOG" => "loud" })).to eq(
        "[Plock] PLOCK_LOG is \"loud\", so nothing is logged: set it to debug, info, warn, " \
        "error, or unset it\ndone\n"
      )
    end

    it "by the configuration, to its logger" do
      expect(logged(<<~RUBY)).to match(/\A\w, .*DEBUG.*: event=acquired .*key="the key".*\n.*\n\z/)
        Plock.configure do |c|
          c.url = "memory:"
          c.logger = Logger.new($stdout)
          c.log = { "level" => "debug", "log_keys" => true }
        end
        Plock.acquire("the key") { nil }
        Plock.configure { nil } rescue nil
        Plock.reset!
        #{use}
      RUBY
    end

    it "by PLOCK_LOG with the other settings of the configuration, and again after reset!" do
      output = logged(<<~RUBY, env: { "PLOCK_LOG" => "debug" })
        Plock.configure do |c|
          c.url = "memory:"
          c.log = { log_keys: true }
        end
        Plock.acquire("the key") { nil }
        Plock.reset!
        #{use}
      RUBY
      expect(output.lines.map { |line| line.include?("key=\"the key\"") })
        .to eq([true, true, false, false])
    end

    it "and off by the configuration" do
      expect(logged(<<~RUBY)).to eq("nil\n")
        Plock.configure { |c| c.log = :debug }
        Plock.configure { |c| c.log = nil }
        p Plock::Events.listening
      RUBY
    end

    it "in the command, too" do
      Dir.mktmpdir("plock-log-") do |place|
        command = [RbConfig.ruby, "-I", Support::Examples::LIB,
                   File.expand_path("../../exe/plock", __dir__)]
        env = { "PLOCK_LOG" => "debug", "PLOCK_URL" => "local:#{place}/locks" }
        output, status = Open3.capture2e(env, *command, "run", "k", "--", "true")
        expect(status).to be_success, output
        expect(output).to match(/event=acquired .*\n.*event=released/)
      end
    end
  end
end
