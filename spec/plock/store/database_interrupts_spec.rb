# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"
require "support/store_contract"

# Interrupts (Timeout, Thread#kill, Thread#raise) may arrive at any moment. They must leave no
# lease, place or connection behind.
RSpec.describe Plock::Store::Database, "whose callers are interrupted" do
  include Support::DatabaseExamples
  include Support::StoreContract

  let!(:key) { "interrupts:#{SecureRandom.hex(8)}" }

  # Stands in for an interrupted request, with the attributes that the store reads.
  AnyGrant = Struct.new(:key, :token, :ttl, :share, :label)

  # A name that only this example's connections have.
  let(:name) { "leak#{SecureRandom.hex(4)}" }

  {
    "PostgreSQL" => [
      :postgresql,
      ->(name, **place) { Support::Postgres.shared.config(application_name: name, **place) },
      ->(name) { "SELECT count(*) FROM pg_stat_activity WHERE application_name = '#{name}'" }
    ],
    "MariaDB with mysql2" => [
      :mysql2,
      ->(name, **place) { { **Support::Mariadb.shared.config("mysql2"), database: name, **place } },
      ->(name) { "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = '#{name}'" }
    ],
    "MariaDB with trilogy" => [
      :trilogy,
      ->(name, **place) {
        { **Support::Mariadb.shared.config("trilogy"), database: name, **place }
      },
      ->(name) { "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = '#{name}'" }
    ]
  }.each do |title, (database, config, count)|
    describe "on #{title}", needs: Support::Databases::PROGRAMS[database], config: config do
      let!(:admin) { Support::Databases.model(database).lease_connection }

      let!(:model) { connected }

      def connected(**place)
        if admin.adapter_name != "PostgreSQL"
          admin.execute("CREATE DATABASE IF NOT EXISTS #{name}")
        end
        made = model_of(self.class.metadata[:config].call(name, **place))
        Support::Databases.migrate(made) if place.empty?
        made.tap { made.connection_pool.disconnect! }
      end

      # A store whose connections go through the proxy `line`.
      def distant(line, **options)
        place = { host: "127.0.0.1", port: line.port }
        place[:socket] = nil if admin.adapter_name != "PostgreSQL"
        database_store(connected(**place), **options)
      end

      # Closes a store whose connections never get an answer. Expects it to close all of them. New
      # connections are refused.
      def expect_all_closed(line, store)
        line.refuse
        store.close
        expect { line.await_open(0, within: 10) }.not_to raise_error
      end

      # Turns the garbage collector off, so that it closes no connection that the store has left
      # open.
      around do |example|
        GC.start
        GC.disable
        example.run
      ensure
        GC.enable
      end

      define_method(:connections) { admin.select_value(count.call(name)) }

      # The number of connections that are left after the store has closed its own.
      def left_over
        eventually(5) { connections.zero? } && 0
      rescue RSpec::Expectations::ExpectationNotMetError
        connections
      end

      it "has no more connections than its pool after an interrupt at whatever step of connecting",
         if: database != :mysql2 do # mysql2 connects in one step
        store = database_store(model, pool_size: 1)
        store.acquire(key) { nil }
        (1..400).step(2).find do |step|
          store.close # so that the next call must connect
          !interrupted_at(step) { store.acquire(key, ttl: 30) { nil } }
        end
        store.close
        expect(left_over).to be_zero
      end

      describe "while it connects to a server that does not answer" do
        server = database == :postgresql ? Support::Postgres : Support::Mariadb
        let(:line) { proxy(["127.0.0.1", server.shared.port]) }

        around { |example| warnings { example.run } }

        before { line.swallow_all(:reply) }

        it "ends a killed caller at once, and closes the connection when its time is over",
           :timing do
          store = distant(line, connect_timeout: 1)
          callers = Array.new(3) { background { store.acquire(key, wait: 10) { nil } } }
          line.await_open(3)
          callers.each { |caller| await_sleep(caller) }
          expect(elapsed { callers.each(&:kill).each(&:join) }).to be < 0.5
          expect_all_closed(line, store)
        end

        # the drivers of MySQL themselves close a connection whose connect_timeout is over
        next unless database == :postgresql

        it "closes a connection that it has given up after connect_timeout" do
          store = distant(line, connect_timeout: 0.2)
          3.times do
            expect { store.acquire(key, wait: 0) { nil } }.to raise_error(Plock::UnavailableError)
          end
          expect_all_closed(line, store)
        end
      end

      it "opens no more connections than its pool has, however many callers are killed" do
        store = database_store(model, pool_size: 4)
        most = 0
        40.times do
          callers = Array.new(8) do |number|
            background { store.acquire("#{key}:#{number}", ttl: 5, wait: 1) { nil } }
          end
          callers.each_with_index do |caller, number|
            number.even? ? Thread.pass : sleep(0.0005)
            caller.kill
          end
          callers.each(&:join)
          store.close
          most = [most, connections].max
        end
        eventually(15, "#{connections} connections are open") { connections <= 4 + 1 }
        # four connections of the pool, one that listens, and two for releases and renewals
        expect(most).to be <= 4 + 1 + 2
      end
    end
  end

  # Runs many short calls that time out, in another process. Returns their unexpected errors, and
  # whether the store still counts a caller as waiting afterwards.
  def time_out_often(model, rounds)
    in_child(within: 60) do
      store = Plock::Store::Database.new(model, pool_size: 16)
      store.acquire(key) { nil }
      raised = Queue.new
      Support::Warnings.capture { hurry(store, raised, rounds) }
      sleep(0.1)
      [Array.new(raised.size) { raised.pop }.tally, store.instance_variable_get(:@site).turns.any?]
    end
  end

  def hurry(store, raised, rounds)
    threads = Array.new(16) do |number|
      Thread.new do
        random = Random.new(number)
        (rounds / 16).times do
          Timeout.timeout(random.rand * 0.02) do
            store.acquire("#{key}:#{number % 4}", ttl: 5, wait: 1) { sleep(random.rand * 0.001) }
          end
        rescue Timeout::Error, Plock::Error
          nil # the expected outcome
        rescue StandardError => e
          raised << "#{e.class}: #{e.message[0, 60]} #{e.backtrace.first}"
        end
      end
    end
    threads.each(&:join)
  end

  { **Support::DatabaseExamples::ALL, "MariaDB with trilogy" => :trilogy }.each do |title, database|
    it "forgets callers that timed out, and raises only what is promised, on #{title}",
       needs: Support::Databases::PROGRAMS[database] do
      model = Support::Databases.model(database)
      model.connection_pool.disconnect!
      raised, kept = time_out_often(model, 1_600)
      expect([raised, kept]).to eq([{}, false])
    end
  end

  # On MySQL, the statements of a batch are sent one by one. So an interrupt may come between them.
  %i[mysql2 trilogy].each do |driver|
    describe "between the statements of a batch on MySQL with #{driver}",
             needs: Support::Databases::PROGRAMS[driver] do
      let(:others) { patient }
      let(:store) { patient(pool_size: 1).tap { |made| take_for_mysql(made) } }

      def patient(**options)
        model = Support::Databases.model(self.class.metadata[:driver])
        database_store(model, **Support::Databases::PATIENT, **options)
      end

      metadata[:driver] = driver

      def take_for_mysql(store)
        store.instance_variable_get(:@origin).singleton_class.prepend(
          Module.new do
            def adapter(*) = super.tap { |made| made.define_singleton_method(:mariadb?) { false } }
          end
        )
      end

      # Runs the block, and interrupts it right after its statement with this number. Returns
      # whether the block was interrupted.
      def interrupted_after(statement, &block)
        thread = Thread.current
        name = "Plock::Store::Database::#{self.class.metadata[:driver].capitalize}"
        trace = TracePoint.new(:return) do
          thread.raise(Interrupt) if Thread.current == thread && (statement -= 1).zero?
        end
        trace.enable(target: Object.const_get(name).instance_method(:perform), &block)
        false
      rescue Interrupt
        true
      end

      it "leaves no transaction open to the next user of the connection" do
        store.acquire(key) { nil }
        done = (1..12).find do |statement|
          next true unless interrupted_after(statement) { store.break(key) }

          own = "#{key}:#{statement}"
          store.acquire(own, ttl: 30) do
            expect(others.status(own)).to be_held
            expect(others.acquire(key, wait: 5) { :entered }).to be(:entered)
          end
          nil
        end
        expect(done).to be > 8
      end
    end
  end

  it "leaves no transaction open on SQLite if it is killed while a reader delays its commit" do
    file = File.join(Support::Supervisor.folder, "#{SecureRandom.hex(8)}.sqlite3")
    config = { **Support::Databases.config(:sqlite), database: file }
    model = model_of({ **config, pragmas: { journal_mode: "delete" } })
    Support::Databases.migrate(model)
    store, others = Array.new(2) { database_store(model, **Support::Databases::PATIENT) }
    store.acquire(key) { nil }
    reader = discard(SQLite3::Database.new(file), :close)
    reader.execute("BEGIN")
    reader.execute("SELECT name FROM plock_leases")
    await_sleep(background { store.break(key) }).kill.join
    reader.execute("COMMIT")
    store.acquire(key, ttl: 30, wait: 5) { expect(others.status(key)).to be_held }
    expect(others.acquire(key, ttl: 30, wait: 5) { :entered }).to be(:entered)
  end

  # If a place without an owner stayed in the queue, other waiters would wait behind it.
  Support::DatabaseExamples::ALL.each do |title, database|
    it "removes within a second what an interrupted statement still does, on #{title}", :timing,
       needs: Support::Databases::PROGRAMS[database] do
      store = discard(
        described_class.new(Support::Databases.model(database), **Support::Databases::PATIENT),
        :close
      )
      replace(store, :place_span) { 20.0 }
      settled = Queue.new
      tables = store.send(:tables)
      replace(tables, :settle) do |settle, *arguments|
        settle.call(*arguments).tap { settled << true }
      end
      store.lock_acquire(key, "holder", 30)
      late = AnyGrant.new(key, Plock.token, 30.0)
      store.take_back_later(late)
      settled.pop
      store.send(:stand_in_queue, late, 30.0, true, monotonic + 20)
      waiting = -> { store.examine(key, nil).last.size }
      expect(waiting.call).to be(1)
      eventually(1) { waiting.call.zero? }
    end
  end
  describe "on SQLite" do
    let(:model) { Support::Databases.model(:sqlite) }
    let(:store) { database_store(model) }

    # An exception that is raised in SQLite's busy handler would leave a mutex of the connection
    # locked.
    it "lets a signal handler raise while a call waits for a writer, and serves the next call" do
      waiter = child do |parent| # forked first, or SQLite would inherit the transaction's locks
        trap(:USR1) { raise SignalException, "USR1" }
        parent.hear
        signal_in("wait_for_others")
        begin
          store.acquire(key, wait: 20) { nil }
        rescue SignalException
          parent.tell(:cut_off)
        end
        parent.hear
        store.acquire(key, wait: 20) { :entered }
      end
      with_row_locked(model, nil) do
        waiter.tell(:locked)
        expect(waiter.hear).to eq(:cut_off)
      end
      waiter.tell(:free)
      expect(waiter.result).to eq(:entered)
    end

    # Sends the signal when the main thread is in the given method.
    def signal_in(method)
      main = Thread.current
      Thread.new do
        sleep 0.001 until main.backtrace.any? { |line| line.include?(method) }
        Process.kill(:USR1, Process.pid)
      end
    end
  end
end
