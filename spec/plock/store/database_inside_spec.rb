# frozen_string_literal: true

require "spec_helper"
require "plock/store/database"
require "support/databases"
require "support/store_contract"

Support::Databases::NAMES.each do |name|
  RSpec.describe Plock::Store::Database, "inside transactions, on #{name}",
                 needs: Support::Databases::PROGRAMS[name] do
    include Support::StoreContract

    let!(:model) { Support::Databases.model(name) }
    let(:store) { new_store(inside: true) }
    let(:other) { new_store(**Support::Databases::PATIENT) }
    let!(:key) { "inside:#{SecureRandom.hex(8)}" }

    def new_store(**options) = discard(described_class.new(model, **options), :close)

    it "takes what others see when it is committed, and releases it so" do
      lease = model.transaction { store.try_acquire(key, ttl: 30, label: "why") }
      expect(other.status(key)).to have_attributes(held?: true, label: "why", fence: lease.fence)
      model.transaction do
        expect(lease.release).to be(true)
        expect(other.status(key).held?).to be(true)
      end
      expect(other.status(key).held?).to be(false)
    end

    it "takes nothing where it is rolled back" do
      lease = nil
      model.transaction do
        lease = store.acquire(key, ttl: 30, wait: 0)
        expect(other.status(key).held?).to be(false)
        raise ActiveRecord::Rollback
      end
      expect(other.try_acquire(key) { :entered }).to be(:entered)
      expect([lease.release, lease.lost?]).to eq([false, true])
    end

    it "releases after the transaction where it is rolled back" do
      lease = store.acquire(key, ttl: 30)
      held = nil
      model.transaction do
        lease.release
        held = other.status(key).held?
        raise ActiveRecord::Rollback
      end
      expect(held).to be(true)
      eventually(10) { other.try_acquire(key) { :entered } }
    end

    it "releases for an owner after the transaction if it is rolled back" do
      lock = store.config.store_key(key)
      expect(store.lock_acquire(lock, "owner", 30)).to be(true)
      model.transaction do
        expect(store.lock_release(lock, "owner")).to be(true)
        expect(other.status(key).held?).to be(true)
        raise ActiveRecord::Rollback
      end
      eventually(10) { other.lock_acquire(lock, "other", 30) }
    end

    it "is refused if it is held, and leaves the transaction as it was" do
      holder = other.acquire(key, ttl: 30)
      model.transaction do
        expect(store.try_acquire(key) { raise "entered" }).to be_nil
        expect { store.acquire(key, wait: 0) { raise "entered" } }.to raise_error(
          Plock::TimeoutError
        )
        expect(model.lease_connection.select_value("SELECT 1")).to be(1)
      end
      holder.release
      expect(model.transaction { store.acquire(key, wait: 0) { :entered } }).to be(:entered)
    end

    # If the connection is lost and the caller ignores the error, Active Record connects again. It
    # then commits a transaction without the statements from before, and so without the lease.
    it "takes nothing where the connection was lost, and the caller has not minded" do
      next if name == :sqlite # SQLite has no connection to a server

      own = Support::Databases.connect(
        "Cut#{name}#{SecureRandom.hex(4)}", Support::Databases.config(name)
      )
      store = discard(described_class.new(own, inside: true), :close)
      lease = nil
      begin
        own.transaction do
          lease = store.acquire(key, ttl: 30, wait: 0)
          cut(own.lease_connection, name)
          2.times { query(own) }
        end
      rescue ActiveRecord::ActiveRecordError
        nil # the caller may also notice the lost connection
      end
      expect(other.try_acquire(key) { :entered }).to be(:entered)
      expect([lease.valid?, lease.lost?]).to eq([false, true])
    end

    it "loses what is rolled back even if an interrupt comes as it does so" do
      lease = nil
      late = TracePoint.new(:call) do
        late.disable
        Thread.new(Thread.current) { |caller| caller.raise(IOError, "late") }.join
      end
      expect do
        model.transaction do
          lease = store.acquire(key, ttl: 30, wait: 0)
          late.enable(target: Plock::Store::LeaseState.instance_method(:lose))
          raise ActiveRecord::Rollback
        end
      end.to raise_error(IOError, "late")
      expect([lease.valid?, lease.lost?]).to eq([false, true])
    ensure
      late.disable
    end

    it "takes back what is committed although an interrupt comes before the answer" do
      connection = model.lease_connection
      allow(connection).to receive(:commit_db_transaction).and_wrap_original do |commit|
        commit.call
        raise IOError, "late"
      end
      allow(connection).to receive(:rollback_db_transaction) # nothing is left to roll back
      lease = nil
      expect do
        model.transaction { lease = store.acquire(key, ttl: 30, wait: 0) }
      end.to raise_error(IOError, "late")
      expect([lease.valid?, lease.lost?]).to eq([false, true])
      expect(other.try_acquire(key, wait: 5) { :entered }).to be(:entered)
    end

    # If a COMMIT gets no answer, Active Record does not tell whether the transaction was committed.
    # So the lease counts as lost, and in the end the key must be free in both cases.
    describe "when the connection is lost before the commit", if: name != :sqlite do
      let(:own) do
        Support::Databases.connect("Cut#{SecureRandom.hex(4)}", Support::Databases.config(name))
      end
      let(:store) { discard(described_class.new(own, inside: true), :close) }

      def commit_in_vain
        expect do
          own.transaction do
            yield
            cut(own.lease_connection, self.class.metadata[:database])
          end
        end.to raise_error(ActiveRecord::ActiveRecordError)
      end

      metadata[:database] = name

      it "loses what it has taken" do
        lease = nil
        commit_in_vain { lease = store.acquire(key, ttl: 30, wait: 0) }
        expect([lease.valid?, lease.lost?]).to eq([false, true])
        expect(other.try_acquire(key, wait: 5) { :entered }).to be(:entered)
      end

      it "is free in the end if it was released there" do
        lease = store.acquire(key, ttl: 30)
        commit_in_vain { lease.release }
        expect(other.try_acquire(key, wait: 5) { :entered }).to be(:entered)
      end
    end

    # To end a deadlock, MySQL rolls back one whole transaction, and not only its last statement. So
    # all leases that were acquired in this transaction are lost.
    describe "when a deadlock has ended the transaction, and the caller goes on",
             if: %i[mysql2 trilogy].include?(name) do
      let(:ready) { Queue.new }

      # Makes two transactions deadlock. The block runs in the smaller transaction, which the server
      # rolls back. Returns the lease of the larger transaction.
      def deadlock
        greater = background do
          model.transaction do
            names = Array.new(20) { |number| "#{key}:#{number}" }
            names.each { |each| discard(store.acquire(each, ttl: 30, wait: 0), :release) }
            ready << true
            discard(store.acquire(key, ttl: 30, wait: 0), :release)
          end
        end
        model.transaction { yield }
        greater.value
      end

      it "loses what it has taken when it finds that out" do
        lease = ended = nil
        greater = deadlock do
          lease = store.acquire(key, ttl: 30, wait: 0)
          ready.pop
          expect { store.acquire("#{key}:7", wait: 0) }.to raise_error(Plock::UnavailableError)
          ended = [lease.valid?, lease.lost?]
        end
        expect([greater.valid?, ended, lease.valid?]).to eq([true, [false, true], false])
      end

      [false, true].each do |nested|
        it "loses it at once if a statement of the caller's own met the deadlock" \
           "#{", in a savepoint" if nested}" do
          lease = ended = nil
          greater = deadlock do
            lease = store.acquire(key, ttl: 30, wait: 0)
            ready.pop
            row = other.status("#{key}:7").store_key
            sql = "UPDATE plock_leases SET waiting = 0 WHERE name = '#{row}'"
            expect do
              model.transaction(requires_new: nested) { model.lease_connection.execute(sql) }
            end.to raise_error(ActiveRecord::Deadlocked)
            ended = [lease.valid?, lease.lost?]
          end
          expect([greater.valid?, ended, lease.valid?]).to eq([true, [false, true], false])
        end
      end
    end

    def query(own)
      own.lease_connection.select_value("SELECT 1")
    rescue ActiveRecord::ActiveRecordError
      nil
    end

    # Ends the connection's session on the server.
    def cut(connection, name)
      id, sql = if name == :postgresql
                  [connection.raw_connection.backend_pid, "SELECT pg_terminate_backend(%d)"]
                else
                  [connection.select_value("SELECT CONNECTION_ID()"), "KILL %d"]
                end
      model.lease_connection.execute(format(sql, id))
      eventually(10) { !connection.active? }
    end

    it "has fences that grow with those of others" do
      fences = [
        other.acquire(key, &:fence), model.transaction { store.acquire(key, wait: 0, &:fence) },
        store.acquire(key, &:fence)
      ]
      expect(fences).to eq(fences.sort.uniq)
    end

    it "refuses what others would have to see at once" do
      model.transaction do
        expect { store.acquire(key, wait: 1) }.to raise_error(Plock::UnsupportedError, /wait/)
        expect { store.acquire(key, wait: 0, renew: true) }.to raise_error(
          Plock::UnsupportedError, /renew/
        )
        expect { store.acquire_all([key, "#{key}:2"], wait: 0) }.to raise_error(
          Plock::UnsupportedError, /several/
        )
        expect { store.read_write_lock(key).read(wait: 0) }.to raise_error(
          Plock::UnsupportedError, /shared/
        )
        expect(model.lease_connection.select_value("SELECT 1")).to be(1)
      end
    end

    unless name == :sqlite # SQLite admits no other caller before the end of the transaction
      it "does not make an interrupted caller wait for another's transaction, " \
         "and leaves nothing behind" do
        store.acquire(key) { nil }
        held, leave = Array.new(2) { Queue.new }
        holder =
          background do
            model.transaction do
              store.try_acquire(key, ttl: 30).tap { (held << true) && leave.pop }
            end
          end
        held.pop
        waiter = background do
          model.transaction do
            expect { store.try_acquire(key, ttl: 30) { raise "entered" } }.to raise_error(
              Support::StoreContract::Interrupt
            )
            # after an interrupt, the drivers of MySQL close the connection
            expect(model.lease_connection.select_value("SELECT 1")).to be(1) if name == :postgresql
            raise ActiveRecord::Rollback
          end
          :over
        end
        waiting =
          if name == :postgresql
            "pg_locks WHERE NOT granted"
          else
            "information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT INTO plock%'"
          end
        eventually { model.lease_connection.select_value("SELECT count(*) FROM #{waiting}") == 1 }
        waiter.raise(Support::StoreContract::Interrupt)
        expect(waiter.join(3)&.value).to be(:over)
      ensure
        leave << true
        expect(holder.value.release).to be(true)
        expect(other.acquire(key, wait: 5) { :entered }).to be(:entered)
      end

      it "takes nothing where it is interrupted, at whatever step" do
        (1..200).find do |step|
          interrupted =
            model.transaction { interrupted_at(step) { store.try_acquire(key, ttl: 30) { nil } } }
          eventually { !other.status(key).held? }
          !interrupted
        end
      end

      it "takes nothing where it is interrupted and the undo fails, once it is committed" do
        tables = store.__send__(:tables)
        undone = true
        replace(tables, :release) do |release, *arguments|
          next release.call(*arguments) if undone

          undone = true
          raise Plock::UnavailableError.new("a statement timeout", code: :io)
        end
        (1..200).step(3).find do |step|
          undone = false
          interrupted =
            model.transaction { interrupted_at(step) { store.try_acquire(key, ttl: 30) } }
          eventually { !other.status(key).held? } if interrupted
          !interrupted
        end
      end

      it "raises only the interrupt itself, at whatever step, if the transaction is rolled back" do
        (1..200).step(3).find do |step|
          interrupted = nil
          model.transaction do
            interrupted = interrupted_at(step) { store.try_acquire(key, ttl: 30) }
            raise ActiveRecord::Rollback
          end
          !interrupted
        end
      end

      it "is released by a commit after a signal handler raised, at whatever step of the release" do
        (1..300).find do |step|
          lease = store.acquire(key, ttl: 30)
          cut_off = model.transaction do
            interrupted_at(step, by_signal: true) do
              Plock::Interrupts.complete { lease.release }
            end
          end
          eventually { !other.status(key).held? }
          !cut_off
        end
      end

      it "is released by a commit after a signal handler raised before there was a savepoint" do
        model.transaction do
          lease = store.try_acquire(key, ttl: 30)
          cut_off = false
          allow(model.lease_connection).to receive(:execute).and_wrap_original do |original, *words|
            next original.call(*words) if cut_off || !words.first.start_with?("SAVEPOINT")

            cut_off = true
            raise Support::StoreContract::Signalled
          end
          expect { Plock::Interrupts.complete { lease.release } }.to raise_error(
            Support::StoreContract::Signalled
          )
        end
        eventually { !other.status(key).held? }
      end

      it "calls who waits when it is committed", :timing do
        # if the waiter's request timed out before the commit, the waiter would repeat it too late
        patient = new_store(**Support::Databases::PATIENT)
        lease = store.acquire(key, ttl: 30)
        waiter = background { patient.acquire(key, ttl: 30, wait: 20) { monotonic } }
        eventually { other.status(key).waiters.size == 1 }
        ending_at = nil
        model.transaction do
          lease.release && expect(waiter.join(0.3)).to(be_nil)
          ending_at = monotonic
        end
        expect(waiter.join(5)&.value).to be_between(ending_at, monotonic + 1)
      end

      it "calls a process that began to wait during the transaction", :timing do
        waiting = [key, "#{key}:2"].map { |each| [each, store.acquire(each, ttl: 30)] }
        waiters = []
        model.transaction do
          waiting.each do |each, lease|
            patient = new_store(**Support::Databases::PATIENT)
            waiters << background { patient.acquire(each, ttl: 30, wait: 20) { monotonic } }
            eventually { other.status(each).waiters.size == 1 }
            lease.release
          end
        end
        committed_at = monotonic
        expect(waiters.map { |waiter| waiter.join(5)&.value }).to all(be < committed_at + 0.5)
      end
    end
  end
end

RSpec.describe Plock::Store::Database, "inside:" do
  it "is true or false" do
    expect { described_class.new(Support::Databases.model(:sqlite), inside: 1) }.to raise_error(
      Plock::ConfigurationError, /inside/
    )
  end
end
