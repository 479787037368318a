# frozen_string_literal: true

require "spec_helper"
require "plock/jobs/guard"
require "plock/sidekiq"
require "plock/status/table"
require "plock/store/advisory"
require "plock/store/database"
require "plock/store/memcached"
require "plock/rails/commands"
require "support/databases"
require "support/memcached"
require "pp"
require "stringio"

class AsDefaultJob
  include Sidekiq::Job
  include Plock::Guard
  guard_with key: ->(name) { name }, on_conflict: :retry

  def perform(name) = Plock.status(name).held?
end

# Runs the code that uses the default store, with each kind of store.
RSpec.describe "The default store" do
  patient = Support::Databases::PATIENT
  stores = {
    "in a database" => [
      Support::Databases::PROGRAMS[:postgresql],
      -> { Plock::Store::Database.new(Support::Databases.model(:postgresql), **patient) }
    ],
    "in SQLite" => [
      [], -> { Plock::Store::Database.new(Support::Databases.model(:sqlite), **patient) }
    ],
    "of advisory locks" => [
      Support::Databases::PROGRAMS[:postgresql],
      -> { Plock::Store::Advisory.new(Support::Databases.model(:postgresql), **patient) }
    ],
    "in memcached" => [
      Support::Memcached::PROGRAMS,
      -> do
        Plock::Store.open("memcached://#{Support::Memcached.shared.address}", attempt_timeout: 20)
      end
    ],
    "on Redis" => [
      %w[redis-server], -> { Plock::Store.open(Support::RedisServer.shared.unix_url) }
    ],
    "in memory" => [[], -> { Plock::Store.open("memory:") }]
  }

  let(:key) { "default:#{SecureRandom.hex(8)}" }

  around do |example|
    logger = Sidekiq.default_configuration.logger
    level, logger.level = logger.level, Logger::ERROR
    example.run
  ensure
    logger.level = level
  end

  after { Plock.reset! }

  def doctor
    output, $stdout = $stdout, StringIO.new
    status = Plock::Railtie::Doctor.new([]).run
    [$stdout.string, status]
  ensure
    $stdout = output
  end

  stores.each do |where, (programs, make)|
    describe where, needs: programs do
      before do
        store = discard(make.call, :close)
        Plock.configure { |c| c.store = store }
      end

      it "locks, tells who holds the key, and shows it as a table" do
        Plock.acquire(key, label: "nightly") do
          expect(Plock.try_acquire(key)).to be_nil
          expect(Plock.status(key).pretty_inspect).to match(/held\n.*host +pid.*\nholder .*nightly/)
        end
        expect(Plock.acquire_all([key, "#{key}:2"]) { :ran }).to be(:ran)
        if Plock.can?(:list)
          Plock.acquire(key) do
            expect(Plock.each_lock.map(&:store_key)).to include(Plock.status(key).store_key)
          end
        end
      end

      it "is that of monitors, guards and what runs once" do
        monitor = Plock::Monitor.new(key)
        expect(monitor.synchronize { monitor.synchronize { Plock.status(key).held? } }).to be(true)
        expect(AsDefaultJob.perform_inline(key)).to be(true)
        Plock.acquire(key) do
          expect { AsDefaultJob.perform_inline(key) }.to raise_error(Plock::Guard::Conflict)
        end
        expect(Array.new(2) { Plock.once(key, within: 30) { nil }.ran? }).to eq([true, false])
      end

      it "is refused what it cannot do by name, and does the rest" do
        if Plock.can?(:semaphores)
          expect(Plock.semaphore(key, permits: 2).acquire { :ran }).to be(:ran)
        else
          expect { Plock.semaphore(key, permits: 2).acquire { nil } }.to raise_error(
            Plock::UnsupportedError
          )
        end
        if Plock.can?(:hand_over)
          expect(Plock.adopt(Plock.acquire(key).dump, &:valid?)).to be(true)
        else
          expect { Plock.acquire(key, &:dump) }.to raise_error(Plock::UnsupportedError)
        end
      end

      it "is examined by doctor, which names what it does not look at" do
        output, status = doctor
        expect(output).to start_with(
          "#{Plock.store.url}\n  store from the application; no namespace; no secret\n"
        )
        expect(output).to match(/^  ok       trial: taken, waited for, handed over/)
        case where
        when "on Redis"
          expect(output).to match(/^  \w+ +persistence: /)
        when "in memory"
          expect([status, output]).to match([1, /^  DANGER   server: .*exclude no other process/])
        else
          expect([status, output]).to match(
            [0, /^  unknown  server: not looked at here: its version, persistence/]
          )
        end
      end
    end
  end

  it "is named in memcached by a URL that says what is missing" do
    expect { Plock::Store.open("memcached://") }.to raise_error(
      Plock::ConfigurationError, %r{names no server: write memcached://host:port}
    )
    expect { Plock::Store.open("memcached://localhost", database: 3) }.to raise_error(
      Plock::ConfigurationError, /database is of no use/
    )
    expect(Plock::Store.open("memcached://user:sesame@a:1,b:2", namespace: "n").inspect).to include(
      "memcached://a:1,b:2>"
    )
  end

  it "is one that can be away: doctor is 69" do
    Plock.configure { |c| c.store = Plock::Store.open("memcached://127.0.0.1:1") }
    expect { expect(doctor.last).to be(69) }.to output(/127.0.0.1:1|No server/).to_stderr
  end
end
