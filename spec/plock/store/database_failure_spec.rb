# frozen_string_literal: true

require "spec_helper"
require "tmpdir"
require "plock/store/advisory"
require "plock/store/database"
require "support/databases"
require "support/store_behind_proxy"
require "support/pgbouncer"

RSpec.describe "Failures of a store in a database" do
  let!(:key) { "failure:#{SecureRandom.hex(8)}" }

  def database_store(model, **options) =
    discard(Plock::Store::Database.new(model, **options), :close)

  # Returns a new model that connects with this configuration.
  def model_of(config) = Support::Databases.connect("Model#{SecureRandom.hex(4)}", config)

  {
    "PostgreSQL" => [Support::Postgres, ->(server, port) { server.tcp_config(port: port) }],
    "MariaDB with mysql2" =>
      [Support::Mariadb, ->(server, port) { server.tcp_config("mysql2", port: port) }],
    "MariaDB with trilogy" =>
      [Support::Mariadb, ->(server, port) { server.tcp_config("trilogy", port: port) }]
  }.each do |name, (kind, config)|
    describe "on #{name}", needs: kind::PROGRAMS do
      let(:direct) do
        database_store(
          Support::Databases.model(kind == Support::Postgres ? :postgresql : :mysql2),
          **Support::Databases::PATIENT
        )
      end
      let(:line) { proxy(["127.0.0.1", kind.shared.port]) }
      # Examples with :timing measure how long a silent server delays a caller, so their timeouts
      # are short. The other timeouts are long, so that a busy machine does not count as a silent
      # server.
      let!(:budgets) do |example|
        next { attempt_timeout: 0.3, release_timeout: 0.5 } if example.metadata[:timing]

        { attempt_timeout: 1.0, release_timeout: 2.0, unavailable_timeout: 10 }
      end
      let(:store) { store_with(**budgets) }

      define_method(:store_with) do |**budgets|
        direct && database_store(model_of(config.call(kind.shared, line.port)), **budgets)
      end

      def expect_free_soon
        eventually(10, "a lease is left behind") do
          direct.status(key).then { |status| !status.held? && status.waiters.empty? }
        end
      end

      it_behaves_like "a store whose server is far"

      it "a connection lost at any byte of an answer leaves nothing behind, " \
         "and the wait survives it" do
        store.acquire(key) { nil }
        [0, 1, 5, 20, 60].each do |bytes|
          line.cut(:reply, after_bytes: bytes, connections: 1)
          heard =
            warnings { expect(store.acquire(key, ttl: 30, wait: 10) { :entered }).to be(:entered) }
          expect(heard).to all(match(/could not be released/))
          line.clear
          expect_free_soon
        end
      end

      it "a server that refuses connections does not hold up a long wait: " \
         "UnavailableError after unavailable_timeout",
         :timing do
        store.acquire(key) { nil }
        line.refuse
        line.disconnect
        within(2.0, least: 0.9) do
          expect { store.acquire(key, wait: 60) { raise "entered" } }.to raise_error(
            Plock::UnavailableError
          )
        end
      end

      it "a database that falls silent does not hold up the exit of a process " \
         "whose threads are in blocks", :timing do
        go =
          File.join(
            Dir.mktmpdir("plock-end").tap { |path| discard(-> { FileUtils.rm_rf(path) }, :call) },
            "go"
          )
        store.acquire(key) { nil } # creates the tables
        ended = background do
          place = Marshal.dump(config.call(kind.shared, line.port)).unpack1("H*")
          ruby(<<~RUBY, place, key, go, within: 20)
            require "active_record"
            require "plock/store/database"
            ActiveRecord::Base.establish_connection(Marshal.load([ARGV[0]].pack("H*")))
            store = Plock::Store::Database.new(ActiveRecord::Base)
            4.times { |number|
              Thread.new { store.acquire("\#{ARGV[1]}:\#{number}", ttl: 30) { sleep } }
            }
            sleep 0.01 until File.exist?(ARGV[2])
          RUBY
        end
        eventually(10) { Array.new(4) { |number| direct.status("#{key}:#{number}") }.all?(&:held?) }
        line.swallow_all(:reply)
        took = elapsed { File.write(go, "") && ended.join }
        expect(took).to be < 2.0
        expect(ended.value.first).to include("could not be released")
        line.clear
      end

      it "a database that falls silent on an open connection does not hold up a long patience",
         :timing do
        store.acquire(key) { nil }
        line.swallow(:reply)
        took =
          elapsed do
            expect { store.acquire(key, wait: 20) { raise "entered" } }.to raise_error(
              Plock::UnavailableError
            )
          end
        expect(took).to be_between(0.9, 2.0)
        line.clear
      end

      it "an answer about several keys that never comes ends with the attempt, " \
         "and leaves nothing behind",
         :timing do
        keys = Array.new(8) { |number| "#{key}:#{number}" }
        store.acquire_all(keys) { nil }
        line.swallow(:reply)
        within(0.3 + 0.2) do
          expect { store.try_acquire_all(keys, ttl: 30) { raise "entered" } }.to raise_error(
            Plock::UnavailableError
          )
        end
        line.clear
        eventually(10, "a lease is left behind") { direct.try_acquire_all(keys) { true } }
      end

      it "an answer that never comes ends with the attempt, and leaves nothing behind", :timing do
        store.acquire(key) { nil }
        line.swallow(:reply)
        within(0.3 + 0.6) do
          expect { store.acquire(key, ttl: 30, wait: 0) { raise "entered" } }.to raise_error(
            Plock::UnavailableError
          )
        end
        line.clear
        expect_free_soon
      end

      it "a release whose answer never comes raises, is made up for, and frees the key" do
        lease = store.acquire(key, ttl: 30)
        line.swallow(:reply)
        expect { lease.release }.to raise_error(Plock::UnavailableError)
        line.clear
        expect_free_soon
      end

      it "a waiter survives the loss of its connection" do
        lease = direct.acquire(key, ttl: 30)
        waiter = background { store.acquire(key, ttl: 30, wait: 20) { :entered } }
        eventually { direct.status(key).waiters.size == 1 }
        line.disconnect
        lease.release
        expect(waiter.join(10)&.value).to be(:entered)
      end

      it "a caller that is killed or times out leaves nothing behind in a silent database" do
        store.acquire(key) { nil }
        line.swallow(:reply)
        expect {
          Timeout.timeout(0.1) { store.acquire(key, ttl: 30, wait: 5) { raise "entered" } }
        }.to raise_error(Timeout::Error)
        thread = background { store.acquire(key, ttl: 30, wait: 5) { raise "entered" } }
        await_sleep(thread)
        thread.kill.join(5)
        line.clear
        expect_free_soon
      end
    end
  end

  {
    postgresql: "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    mysql2: "SELECT count(*) FROM information_schema.PROCESSLIST " \
            "WHERE COMMAND = 'Query' AND ID <> CONNECTION_ID()",
    trilogy: "SELECT count(*) FROM information_schema.PROCESSLIST " \
             "WHERE COMMAND = 'Query' AND ID <> CONNECTION_ID()"
  }.each do |name, busy|
    it "a caller that gives up leaves no query waiting in the database, on #{name}",
       needs: Support::Databases::PROGRAMS[name] do
      model = Support::Databases.model(name)
      store = database_store(model, attempt_timeout: 0.15, release_timeout: 0.15)
      patient = database_store(model, **Support::Databases::PATIENT)
      store_key = patient.acquire(key, ttl: 30, &:store_key)
      model.transaction do
        model.lease_connection.select_value(
          "SELECT name FROM plock_leases WHERE name = '#{store_key}' FOR UPDATE"
        )
        expect { store.acquire(key, ttl: 30, wait: 0.5) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
        expect { store.try_acquire(key, ttl: 30) }.to raise_error(Plock::UnavailableError)
        eventually(5, "a query still waits") { model.lease_connection.select_value(busy).zero? }
      end
      eventually(5, "a lease is left behind") do
        patient.status(key).then { |status| !status.held? && status.waiters.empty? }
      end
    end
  end

  describe "a restart in mid-hold" do
    { postgresql: Support::Postgres, mysql2: Support::Mariadb }.each do |name, kind|
      it "loses neither the renewal nor the exclusion, on #{name}", needs: kind::PROGRAMS do
        server = discard(kind.new.start, :stop)
        model = model_of(kind == Support::Postgres ? server.config : server.config("mysql2"))
        Support::Databases.migrate(model)
        model.connection_pool.disconnect!
        store, other = Array.new(2) { database_store(model) }
        store.acquire(key, ttl: 20, renew: true) do |lease|
          before = lease.valid_until
          server.restart
          expect(other.try_acquire(key)).to be_nil
          lease.extend
          expect(lease.valid_until).to be > before
          expect(lease).to be_valid
        end
        expect(other.try_acquire(key) { :entered }).to be(:entered)
      end
    end
  end

  describe "a server that stands still" do
    it "does not hold up who has no patience, nor longer than patience", :timing,
       needs: Support::Postgres::PROGRAMS do
      server = discard(Support::Postgres.new.start, :stop)
      model = model_of(server.config)
      Support::Databases.migrate(model)
      model.connection_pool.disconnect!
      store =
        database_store(model, attempt_timeout: 0.2, release_timeout: 0.2, connect_timeout: 0.5)
      store.acquire(key) { nil }
      backend =
        store
          .instance_variable_get(:@site)
          .work(Plock::Clock.now + 1) do |connection|
            connection.run("SELECT pg_backend_pid()", Plock::Clock.now + 1).rows.dig(0, 0)
          end
      Process.kill(:STOP, backend)
      if backend
        within(1.0) do
          expect { store.acquire(key, wait: 0) { raise "entered" } }.to raise_error(
            Plock::UnavailableError
          )
        end
      end
    ensure
      Process.kill(:CONT, backend) if backend
    end
  end

  describe "a pooler that lends a connection to each transaction",
           needs: [*Support::Postgres::PROGRAMS, *Support::Pgbouncer::PROGRAMS] do
    let(:direct) { Support::Databases.model(:postgresql) }
    let(:pooler) do
      direct && discard(Support::Pgbouncer.new(Support::Postgres.shared, :transaction).start, :stop)
    end
    let(:model) { model_of(pooler.config) }

    it "lets leases in tables work, without calling who waits, which is said once" do
      store = database_store(model)
      heard = warnings do
        holder = store.acquire(key, ttl: 30)
        other = child do |parent|
          mine = Plock::Store::Database.new(model)
          Support::Warnings.capture do
            parent.tell(:asks) && mine.acquire(key, ttl: 30, wait: 20) { :entered }
          end
          :entered
        end
        other.hear
        eventually(10) { store.status(key).waiters.size == 1 }
        holder.release
        expect(other.result).to be(:entered)
      end
      expect(heard.grep_v(/notifications do not arrive/)).to be_empty
    end

    it "makes advisory locks that last as long as a connection an UnsupportedError, " \
       "and leaves none behind" do
      left = -> do
        direct.lease_connection.select_rows(
          "SELECT pid, classid, objid FROM pg_locks WHERE locktype = 'advisory'"
        )
      end
      others = left.call # locks of other examples
      store = discard(Plock::Store::Advisory.new(model, attempt_timeout: 3), :close)
      expect { store.acquire(key, wait: 0) { raise "entered" } }.to raise_error(
        Plock::UnsupportedError, /scope: :transaction/
      )
      expect(left.call - others).to be_empty
    end

    it "lets those work that last as long as a transaction" do
      stores =
        Array.new(2) { discard(Plock::Store::Advisory.new(model, scope: :transaction), :close) }
      stores[0].acquire(key, ttl: 30) { expect(stores[1].try_acquire(key)).to be_nil }
      expect(stores[1].acquire(key, wait: 0) { :entered }).to be(:entered)
    end
  end

  describe "advisory locks", needs: Support::Postgres::PROGRAMS do
    let(:model) { Support::Databases.model(:postgresql) }

    def advisory_store(**options) = discard(Plock::Store::Advisory.new(model, **options), :close)

    it "are free at once when their process dies" do
      store = advisory_store
      holder =
        child { |parent| advisory_store.acquire(key, ttl: 60) { parent.tell(:held) && sleep } }
      holder.hear
      expect(store.try_acquire(key)).to be_nil
      holder.signal(:KILL)
      expect(store.acquire(key, wait: 5) { :entered }).to be(:entered)
    end

    it "do not live on in a child of a process that died" do
      store = advisory_store
      reader, writer = IO.pipe
      holder = child do |parent|
        advisory_store.acquire(key, ttl: 60) do
          writer.write("#{Process.fork { sleep }}\n")
          parent.tell(:held) && sleep
        end
      end
      holder.hear
      grandchild = Integer(reader.gets)
      holder.signal(:KILL)
      expect(store.acquire(key, wait: 5) { :entered }).to be(:entered)
    ensure
      Process.kill(:KILL, grandchild) if grandchild
    end

    it "are lost with their connection, and that is noticed" do
      store = advisory_store
      told = Queue.new
      holders = -> do
        model.lease_connection.select_values("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")
      end
      others = holders.call # locks of other examples
      lease = store.acquire(key, ttl: 60, renew: true, on_lost: ->(_) { told << true })
      lease.check!
      (holders.call - others).each do |pid|
        model.lease_connection.execute("SELECT pg_terminate_backend(#{pid})")
      end
      eventually(15) { !told.empty? } # the first renewal would find the loss only after 20 s
      expect([lease.lost?, lease.release]).to eq([true, false])
    end

    it "are broken from another process" do
      store = advisory_store
      holder = child do |parent|
        warned =
          Support::Warnings.capture do
            advisory_store.acquire(key, ttl: 60) { parent.tell(:held) && parent.hear }
          end
        warned.size
      end
      holder.hear
      expect(store.break(key)).to be(true)
      expect(store.acquire(key, wait: 0) { :entered }).to be(:entered)
      holder.tell(:go)
      expect(holder.result).to be(1)
    end
  end

  describe "GET_LOCK", needs: Support::Mariadb::PROGRAMS do
    it "takes names that differ in case or length only for different ones" do
      locks = Plock::Store::Advisory::MysqlLocks.new
      names =
        ["a", "A", "a" * 64, "a" * 65, "A" * 65, "é", "É", "a b"].map { |name| locks.name(name) }
      expect(names.uniq.size).to be(names.size)
      expect(names).to all(satisfy { |name| name.bytesize <= 64 && name == name.downcase })
    end
  end
end
