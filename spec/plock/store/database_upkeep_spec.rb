# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"

# Renewals and releases must continue, however many leases and waiters a process has.
RSpec.describe Plock::Store::Database, "with much to look after" do
  include Support::DatabaseExamples

  leases_count = 10_000
  let!(:key) { "upkeep:#{SecureRandom.hex(8)}" }

  # Sleeps long enough for each lease to be renewed twice.
  def two_rounds(ttl) = sleep(2 * ttl / 3.0)

  # Holds this many leases for a while, in another process. Returns how many were lost, before and
  # after the measurement, and the share of a processor that the renewals used. That share is the
  # least of three measurements, because a machine may be slow for a while.
  def hold_many(model, count)
    in_child(within: 100) do
      store = Plock::Store::Database.new(model)
      GC.disable # keeps garbage collection out of the measured time
      leases = Array.new(count) { |number| "#{key}:#{number}" }.each_slice(50).flat_map do |keys|
        store.acquire_all(keys, ttl: 10, renew: true, wait: 10)
      end
      lost_before = leases.count(&:lost?)
      shares = Array.new(3) do
        started, used = monotonic, processor_time
        two_rounds(10)
        (processor_time - used) / (monotonic - started)
      end
      [lost_before, leases.count(&:lost?), shares.min.round(3)]
    end
  ensure
    model.lease_connection.execute("DELETE FROM plock_leases")
  end

  Support::DatabaseExamples::SERVERS.each do |name, database|
    describe "on #{name}", needs: Support::Databases::PROGRAMS[database] do
      let!(:model) { Support::Databases.model(database) }
      let(:store) { database_store(model) }

      it "renews #{leases_count} leases with a tenth of a core, and loses none", :timing do
        lost_before, lost, share = hold_many(model, leases_count)
        expect([lost_before, lost, share]).to match([0, 0, be < 0.1])
      end

      # All connections of a pool wait in the database for a row that another transaction has
      # locked.
      describe "while five callers wait for a row that another transaction has" do
        define_method(:behind_a_row) do |&work|
          store_key = store.acquire("#{key}:row", &:store_key)
          with_row_locked(model, store_key) do
            waiters = Array.new(5) do
              await_sleep(background { store.acquire("#{key}:row", ttl: 30, wait: 10) { nil } })
            end
            sleep(0.2) # by now, all five have asked
            work.call
          ensure
            waiters&.each(&:kill)
          end
        end

        it "renews the leases of other keys" do
          lease = store.acquire(key, ttl: 4, renew: true)
          first = lease.valid_until
          behind_a_row do
            eventually(6) { Plock::Clock.now > first + 0.1 }
            expect(lease).to be_valid
          end
          lease.release
        end

        it "extends and releases leases of other keys at once", :timing do
          leases = Array.new(2) { |number| store.acquire("#{key}:#{number}", ttl: 30) }
          behind_a_row do
            outcomes = [seconds_or_error { leases[0].extend }]
            outcomes += leases.map { |lease| seconds_or_error { lease.release } }
            expect(outcomes).to all(be_a(Float).and(be < 0.5))
          end
        end

        it "acquires other keys at once", :timing do
          behind_a_row do
            outcome = seconds_or_error { store.acquire(key, wait: 0.5) { nil } }
            expect(outcome).to be_a(Float).and(be < 0.5)
          end
        end
      end
    end
  end

  describe "on PostgreSQL, with notifications from other processes",
           needs: Support::Postgres::PROGRAMS do
    let!(:model) { Support::Databases.model(:postgresql) }
    let(:admin) { model.lease_connection }

    # Opens a store. Returns a lease whose loss the store must notice, and the thread that listens
    # for the server's notices.
    def listening_store(model, number)
      before = listeners
      lease = database_store(model).acquire("#{key}:#{number}", ttl: 30, on_lost: ->(*) {})
      [lease, eventually(5) { (listeners - before).first }]
    end

    def listeners = Thread.list.select { |thread| thread.name == "plock listener" }

    # Cuts the connections that listen. After a store has connected again, its listening thread
    # asks the database whether the store still has its leases.
    def cut_listeners(name, count)
      listening = "application_name = '#{name}' AND query LIKE 'LISTEN%' AND state = 'idle'"
      sql = "SELECT count(*) FROM pg_stat_activity WHERE #{listening}"
      eventually(5) { admin.select_value(sql) == count }
      sleep(0.1) # by now, each store knows that it is listening
      admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE #{listening}")
    end

    # From now on, counts how many times each of these threads reads the clock. When a thread
    # reaches its given number, its lease is released. The clock is traced, because RSpec would
    # remove a stub while a thread is inside it.
    def release_at_looks(leases_by_thread)
      looks = leases_by_thread.transform_values { 0 }
      trace = TracePoint.new(:call) do
        lease, count = leases_by_thread[Thread.current]
        Thread.new { lease.release }.join if lease && (looks[Thread.current] += 1) == count
      end
      trace.enable(target: Plock::Clock.method(:now))
      discard(trace, :disable)
    end

    it "sleeps after a release that comes at any moment of asking after its lease" do
      name = "listener_#{SecureRandom.hex(4)}"
      model = model_of(Support::Postgres.shared.config(application_name: name))
      stores = (1..20).map { |number| [*listening_store(model, number), number] }
      release_at_looks(stores.to_h { |lease, thread, number| [thread, [lease, number]] })
      cut_listeners(name, stores.size)
      # Within these 10 s, each thread listens again. A thread that does not sleep by then never
      # will.
      eventually(10, "a thread does not sleep") do
        used = processor_time
        sleep(0.3)
        (processor_time - used) / 0.3 < 0.3
      end
      stores.each { |lease,| lease.release }
    end
  end
end
