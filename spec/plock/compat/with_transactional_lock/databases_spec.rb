# frozen_string_literal: true

require "spec_helper"
require "plock/compat/with_transactional_lock"
require "support/databases"
require "support/pgbouncer"
require "support/transactional_locks"

RSpec.describe WithTransactionalLock do
  include Support::TransactionalLocks

  let!(:lock) { "lock:#{SecureRandom.hex(8)}" }

  it "names an adapter that has no such locks" do
    model = Support::Databases.model(:sqlite)
    expect { model.with_transactional_lock(lock) { raise "entered" } }.to raise_error(
      Plock::UnsupportedError, /SQLite/
    )
  end

  # Expects that this library and callers of the `original` lock exclude each other.
  #
  # @yield runs while this library has the lock, and must wait until the database reports that the
  #   `original` caller is waiting for it
  def expect_to_exclude_each_other
    waiter = left_at = nil
    model.with_transactional_lock(lock) do
      waiter =
        child do |parent|
          parent.tell(:asks) && original(lock) { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
        end
      waiter.hear
      yield
      left_at = monotonic
    end
    expect(waiter.result).to be > left_at
    holder = child { |parent| original(lock) { parent.tell(:held) && parent.hear } }
    holder.hear
    expect(free?(model, lock)).to be(false)
    holder.tell(:go)
    expect(holder.result && free?(model, lock)).to be(true)
  end

  describe "on PostgreSQL", needs: Support::Postgres::PROGRAMS do
    let!(:model) { Support::TransactionalLocks.model(:postgresql) }

    # Acquires the lock as the original gem does.
    def original(name)
      model.transaction do
        number = Digest::SHA256.digest(name)[0, 8].unpack1("q")
        model.lease_connection.execute(
          "/* lock:#{name} */ SELECT pg_advisory_xact_lock(#{number})"
        )
        yield
      end
    end

    it "has the numbers that the gem of this name has" do
      sent = statements(model) { model.with_transactional_lock("name_of_a_resource") { nil } }
      expect(sent).to include(
        "/* lock:name_of_a_resource */ SELECT pg_advisory_xact_lock(-3679984210423727738)"
      )
    end

    it "excludes those who run that, and is excluded by them" do
      expect_to_exclude_each_other do
        eventually do
          model.lease_connection.select_value(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
          ) == 1
        end
      end
    end

    it "admits sharers together, and no other caller" do
      holder =
        child do |parent|
          model.with_transactional_lock(lock, shared: true) { parent.tell(:held) && parent.hear }
        end
      holder.hear
      expect(model.with_transactional_lock(lock, shared: true, timeout: 0) { :entered }).to be(
        :entered
      )
      expect(model.with_transactional_lock(lock, shared: true, timeout: 5) { :entered }).to be(
        :entered
      )
      expect(free?(model, lock)).to be(false)
      holder.tell(:go)
    end

    it "leaves an open transaction as it was if a waiter in it is interrupted" do
      holder = hold_in_another(model, lock)
      model.transaction do
        model.lease_connection.execute("UPDATE counters SET value = 7 WHERE id = 1")
        expect {
          Timeout.timeout(0.2) { model.with_transactional_lock(lock) { raise "entered" } }
        }.to raise_error(Timeout::Error)
        model.lease_connection.execute("SET LOCAL lock_timeout = 100")
        expect { model.with_transactional_lock(lock) { raise "entered" } }.to raise_error(
          ActiveRecord::LockWaitTimeout
        )
        expect(
          model.lease_connection.select_value("SELECT value FROM counters WHERE id = 1")
        ).to be(7)
        holder.tell(:go) && holder.result
        expect(in_another(model) { free?(model, lock) }).to be(true)
        raise ActiveRecord::Rollback
      end
    end

    it "leaves an open transaction as it was where an interrupt comes with the lock" do
      interrupted = ->(*, payload) do
        throw :interrupted if payload[:sql].include?("pg_advisory_xact_lock")
      end
      model.transaction do
        catch(:interrupted) do
          ActiveSupport::Notifications.subscribed(interrupted, "sql.active_record") do
            model.with_transactional_lock(lock) { raise "entered" }
          end
        end
        expect(
          model.lease_connection.select_value("SELECT value FROM counters WHERE id = 1")
        ).to be_an(Integer)
      end
      expect(in_another(model) { free?(model, lock) }).to be(true)
    end

    it "does not wait for a silent database when a waiter in an open transaction is interrupted",
       :timing do
      holder = hold_in_another(model, lock)
      line = proxy(["127.0.0.1", Support::Postgres.shared.port])
      far =
        Support::Databases.connect(
          "Silent#{SecureRandom.hex(4)}", Support::Postgres.shared.tcp_config(port: line.port)
        )
      expect do
        far.transaction do
          far.lease_connection.execute("UPDATE counters SET value = 7 WHERE id = 1")
          line.swallow(:reply)
          took =
            elapsed do
              expect {
                Timeout.timeout(0.2) { far.with_transactional_lock(lock) { nil } }
              }.to raise_error(Timeout::Error)
            end
          expect(took).to be < 4
          line.clear
          far.lease_connection.execute("SELECT 1")
        end
      end.to raise_error(ActiveRecord::ActiveRecordError)
      far.release_connection # as at the end of a request
      holder.tell(:go) && holder.result
      expect(
        far.with_transactional_lock(lock, timeout: 5) do
          far.lease_connection.select_value("SELECT value FROM counters WHERE id = 1")
        end
      ).not_to be(7)
    end

    it "waits in the order of the database" do
      holder = hold_in_another(model, lock)
      waiting = ->(count) do
        model.lease_connection.select_value(
          "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ) == count
      end
      children = Array.new(3) do |number|
        waiter =
          child do
            model.with_transactional_lock(lock) do
              [number, Process.clock_gettime(Process::CLOCK_MONOTONIC)]
            end
          end
        eventually(10) { waiting.call(number + 1) }
        waiter
      end
      holder.tell(:go)
      expect(children.map(&:result).sort_by(&:last).map(&:first)).to eq([0, 1, 2])
    end

    it "works through a pooler that lends a connection to each transaction",
       needs: Support::Pgbouncer::PROGRAMS do
      left = -> do
        model.lease_connection.select_rows(
          "SELECT pid, classid, objid FROM pg_locks WHERE locktype = 'advisory'"
        )
      end
      others = left.call # locks of other examples
      pooler = discard(Support::Pgbouncer.new(Support::Postgres.shared, :transaction).start, :stop)
      pooled = Support::Databases.connect("Pooled#{SecureRandom.hex(4)}", pooler.config)
      pooled.with_transactional_lock(lock) { expect(free?(model, lock)).to be(false) }
      expect(
        pooled.with_transactional_lock(lock, timeout: 5) { free?(model, "#{lock}:other") }
      ).to be(true)
      expect(free?(model, lock)).to be(true)
      expect(left.call - others).to be_empty
    end

    it "leaves no lock where the connection is lost" do
      line = proxy(["127.0.0.1", Support::Postgres.shared.port])
      far =
        Support::Databases.connect(
          "Far#{SecureRandom.hex(4)}", Support::Postgres.shared.tcp_config(port: line.port)
        )
      expect {
        far.with_transactional_lock(lock) do
          line.disconnect && far.lease_connection.execute("SELECT 1")
        end
      }.to raise_error(ActiveRecord::ActiveRecordError)
      eventually(15) { free?(model, lock) }
      expect(far.with_transactional_lock(lock) { :entered }).to be(:entered)
    end

    it "needs no migration" do
      expect(
        Support::TransactionalLocks.generate(model, "with_transactional_lock:install")
      ).to be_empty
    end
  end

  describe "on MariaDB", needs: Support::Mariadb::PROGRAMS do
    let!(:model) { Support::TransactionalLocks.model(:mysql2) }

    def original(name)
      model.transaction do
        number = Digest::SHA256.digest(name)[0, 8].unpack1("q")
        model.lease_connection.execute(
          "insert into transactional_advisory_locks values (#{number}) " \
          "on duplicate key update lock_id = lock_id"
        )
        yield
      end
    end

    it "excludes those who insert rows as the gem of this name does, and is excluded by them" do
      2.times { expect_to_exclude_each_other { await_lock_wait(model) } }
    end

    # Deletes the rows of all locks, and waits until the database has purged them. Before that, the
    # deleted rows would still divide the gaps that InnoDB locks.
    def clean_up_in_another
      in_another(model) { WithTransactionalLock::MySqlHelper.cleanup(model) }
      model.lease_connection.execute("SET GLOBAL innodb_max_purge_lag_wait = 0")
    end

    # Picks three neighbouring names. The first caller makes the row of the middle name, and rolls
    # it back while a second caller waits for it. Expects the other two names to be free.
    def expect_neighbours_to_be_free
      ids =
        Array
          .new(60) { |number| "#{lock}:#{number}" }
          .sort_by { |name| Digest::SHA256.digest(name)[0, 8].unpack1("q") }
      before, contended, after = ids[29], ids[30], ids[31]
      yield contended
      held =
        child do |parent|
          model.transaction do
            model.with_transactional_lock(contended) { true } && parent.tell(:held) &&
              parent.hear && raise(ActiveRecord::Rollback)
          end
        end
      held.hear
      waiter =
        child do |parent|
          model.transaction(isolation: :repeatable_read) do
            model.with_transactional_lock(contended) { parent.tell(:in) && parent.hear }
          end
        end
      await_lock_wait(model)
      held.tell(:go)
      waiter.hear
      expect([before, after].map { |name| free?(model, name) }).to eq([true, true])
      waiter.tell(:go)
    end

    it "never lets names block each other where one that is new is rolled back" do
      expect_neighbours_to_be_free { nil }
    end

    %i[mysql2 trilogy].each do |driver|
      describe "with #{driver}" do
        let!(:model) { Support::TransactionalLocks.model(driver) }

        it "never lets names block each other after another process has cleaned up" do
          expect_neighbours_to_be_free do |contended|
            model.with_transactional_lock(contended) { nil }
            clean_up_in_another
          end
        end

        it "commits a row on each side where its own was deleted" do
          rows = -> do
            model.lease_connection.select_value("SELECT count(*) FROM transactional_advisory_locks")
          end
          [nil, 0, 5].each do |timeout|
            locking = -> { model.with_transactional_lock(lock, timeout: timeout) { nil } }
            [locking, -> { model.transaction { locking.call } }].each do |locked|
              locking.call # after this, the process remembers the row
              clean_up_in_another
              locked.call
              expect(rows.call).to be(3)
              2.times { locked.call }
              expect(rows.call).to be(3)
            end
          end
        end
      end
    end

    it "has no shared locks" do
      expect {
        model.with_transactional_lock(lock, shared: true) { raise "entered" }
      }.to raise_error(Plock::UnsupportedError, /shared/)
    end

    it "waits longer than the database's own timeout, if asked to" do
      holder = hold_in_another(model, lock)
      in_time = child do
        model.lease_connection.execute("SET SESSION innodb_lock_wait_timeout = 0")
        model.with_transactional_lock(lock, timeout: 10) { :entered }
      end
      await_lock_wait(model)
      holder.tell(:go)
      expect(in_time.result).to be(:entered)
    end

    it "limits the connection where it cannot limit a statement" do
      holder = hold_in_another(model, lock)
      allow(model.lease_connection).to receive(:mariadb?).and_return(false)
      limit = -> do
        model.lease_connection.select_value("SELECT @@SESSION.innodb_lock_wait_timeout")
      end
      before = limit.call
      expect {
        model.with_transactional_lock(lock, timeout: 0.5) { raise "entered" }
      }.to raise_error(Plock::TimeoutError)
      expect(limit.call).to eq(before)
      holder.tell(:go)
    end

    describe "MySqlHelper.cleanup" do
      it "deletes the rows of all locks without a holder, and of no others" do
        held, free = "#{lock}:held", Array.new(20) { |number| "#{lock}:#{number}" }
        free.each { |name| model.with_transactional_lock(name) { nil } }
        holder = hold_in_another(model, held)
        rows = -> do
          model.lease_connection.select_value("SELECT count(*) FROM transactional_advisory_locks")
        end
        expect(WithTransactionalLock::MySqlHelper.cleanup(model)).to be >= 20
        expect(rows.call).to be(1)
        expect(free?(model, held)).to be(false)
        expect(free.map { |name| free?(model, name) }).to all(be(true))
        holder.tell(:go)
        holder.result
        expect(WithTransactionalLock::MySqlHelper.cleanup(model)).to be(21)
      end
    end
  end
end
