# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"

# Active Record guesses from an error message why a connection was refused. If the message contains
# the name of the database, Active Record assumes that the database is missing. If it contains the
# name of the role, Active Record assumes a wrong password. If it contains the host, Active Record
# assumes a wrong host. So with the names in these examples, Active Record reports one of these
# mistakes during a restart. The store must not report it as such a mistake.
RSpec.describe Plock::Store::Database, "while its server restarts" do
  include Support::DatabaseExamples

  # PostgreSQL's answer to a client that connects while the server is still starting.
  def self.startup_error
    fields = "SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
    "E#{[fields.bytesize + 4].pack("N")}#{fields}"
  end

  # Captures the warnings that the background thread logs about its failures.
  around { |example| warnings { example.run } }

  let!(:key) { "restart:#{SecureRandom.hex(8)}" }
  let(:line) { proxy(["127.0.0.1", Support::Postgres.shared.port]) }
  let(:admin) { Support::Databases.model(:postgresql).lease_connection }

  # How the server acts during a restart: it refuses connections, or accepts them and answers that
  # it is not ready.
  starting_up = startup_error
  ways = {
    "is refused" => ->(line) { line.refuse },
    "comes too early" => ->(line) { line.replace(starting_up) }
  }
  back = { "is refused" => :forward, "comes too early" => :clear }

  [
    ["any database, by host", "plock", "plock_app", "is refused"],
    ["a role named server", "server", "plock_app", "is refused"],
    ["a role named system", "system", "plock_app", "comes too early"],
    ["a database named connection", "plock", "connection", "is refused"],
    ["a database named starting", "plock", "starting", "comes too early"]
  ].each do |what, role, database, way|
    describe "with #{what}, if a client #{way}", needs: Support::Postgres::PROGRAMS do
      let(:model) do
        made_once("pg_roles", "rolname", role, "CREATE ROLE \"#{role}\" SUPERUSER LOGIN")
        made_once("pg_database", "datname", database, "CREATE DATABASE \"#{database}\"")
        config = { username: role, database: database, sslmode: "disable", gssencmode: "disable" }
        made = model_of(Support::Postgres.shared.tcp_config(port: line.port, **config))
        Support::Databases.migrate(made)
        made.tap { made.connection_pool.disconnect! }
      end
      let(:store) { database_store(model, unavailable_timeout: 20) }

      def made_once(table, column, name, sql)
        there = admin.select_value("SELECT 1 FROM #{table} WHERE #{column} = #{admin.quote(name)}")
        admin.execute(sql) unless there
      end

      define_method(:go_down) do
        ways.fetch(way).call(line)
        line.disconnect
      end

      define_method(:come_back) { line.public_send(back.fetch(way)) }

      # Returns a queue. From now on, each attempt to connect adds an element to it. Only this
      # example's attempts count, because stores of other examples may still try to reach their
      # servers.
      def connection_attempts
        attempts = Queue.new
        adapter = ActiveRecord::ConnectionAdapters::PostgreSQLAdapter
        allow(adapter).to receive(:new_client).and_wrap_original do |connect, parameters|
          attempts << true if parameters[:port] == line.port
          connect.call(parameters)
        end
        attempts
      end

      # Returns the store's error, or nil. All other errors are raised.
      def failure
        yield && nil
      rescue Plock::Error => e
        e
      end

      it "says that the database is not available, and blames no password or configuration" do
        store.acquire(key) { nil }
        go_down
        impatient = failure { store.acquire(key, wait: 0) { :entered } }
        expect(impatient).to be_a(Plock::UnavailableError)
      end

      it "rides it out in an acquire with patience" do
        store.acquire(key) { nil }
        go_down
        waiter = background { store.acquire(key, ttl: 30, wait: 15) { :entered } }
        await_sleep(waiter).join(0.3)
        come_back
        expect(waiter.value).to be(:entered)
      end

      it "makes up for a release that fails" do
        lease = store.acquire(key, ttl: 30)
        go_down
        failure { lease.release }
        sleep(0.3) # the first attempts to repeat the release fail meanwhile
        come_back
        eventually(10, "the key stays taken") { !store.status(key).held? }
      end

      # The next example finds a wrong guess by the number of lines in the log. That works only if
      # the guess blames the database: after a wrong password, plock does not log each attempt.
      next if database == "plock_app"

      it "renews quietly: a few lines in the log at most, and few attempts to connect" do
        lease = store.acquire(key, ttl: 15, renew: true)
        first = lease.valid_until
        go_down
        attempts = connection_attempts
        told = warnings do
          eventually(20) { Plock::Clock.now > first - 8 } # a renewal is due after 5 s
          come_back
        end
        eventually(20, "the lease was not renewed") { lease.valid_until > first }
        expect([told.size, attempts.size]).to match([be < 10, be < 30])
        lease.release
      end
    end
  end

  # Restarts a real server. A lease and a waiter must survive that.
  it "rides out a restart of PostgreSQL, with a role named system and a database named server",
     needs: Support::Postgres::PROGRAMS do
    server = discard(Support::Postgres.new.start, :stop)
    admin = model_of(server.config)
    admin.lease_connection.execute("CREATE ROLE \"system\" SUPERUSER LOGIN")
    admin.lease_connection.execute("CREATE DATABASE \"server\"")
    model = model_of(server.config(username: "system", database: "server"))
    Support::Databases.migrate(model)
    [admin, model].each { |any| any.connection_pool.disconnect! }
    store = database_store(model, unavailable_timeout: 20)
    lease = store.acquire(key, ttl: 10, renew: true)
    waiter = background { store.acquire(key, ttl: 30, wait: 20) { :entered } }
    eventually(5) { store.status(key).waiters.size == 1 }
    server.restart
    expect([lease.release, waiter.value]).to eq([true, :entered])
  end

  {
    "PostgreSQL" => [:postgresql, -> { Support::Postgres.shared.tcp_config(database: "any") }],
    "MariaDB with mysql2" => [:mysql2, -> { Support::Mariadb.shared.tcp_config("mysql2") }]
  }.each do |name, (database, config)|
    # An unreachable name server must not count as a wrong password.
    it "takes a host whose name cannot be resolved for one that is not available, on #{name}",
       needs: Support::Databases::PROGRAMS[database] do
      store = database_store(model_of(config.call.merge(host: "nowhere.invalid")))
      expect { store.acquire(key, wait: 0) { nil } }.to raise_error(Plock::UnavailableError)
    end
  end
end
