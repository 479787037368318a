# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"

RSpec.describe Plock::Store::Database, "whose waiters stop or die" do
  include Support::DatabaseExamples

  let!(:key) { "waiters:#{SecureRandom.hex(8)}" }

  Support::DatabaseExamples::ALL.each do |name, database|
    describe "on #{name}", needs: Support::Databases::PROGRAMS[database] do
      let!(:model) { Support::Databases.model(database) }
      let(:store) { database_store(model) }

      # On SQLite, a stopped process may have the database locked, so that other processes cannot
      # execute statements. So only one process is stopped at a time there.
      groups = database == :sqlite ? [[1], [2], [3], [4]] : [[*1..9]]

      # Yields a lease for each of these numbers. Another process waits for the lease's key, and is
      # stopped right after it has executed its statement with that number.
      def leases_with_stopped_waiters(statements, **options)
        leases = statements.map do |statement|
          store.acquire("#{key}:#{statement}", **{ ttl: 30 }, **options)
        end
        waiters = leases.zip(statements).map do |lease, statement|
          stopped_child(statement) do
            database_store(model).acquire(lease.key, ttl: 30, wait: 30) { nil }
          end
        end
        yield leases
      ensure
        waiters&.compact&.each { |waiter| end_child(waiter) }
        leases&.each { |lease| let_go(lease) }
      end

      def let_go(lease)
        lease.release
      rescue Plock::Error
        nil # another example tests this failure
      end

      # A stopped process keeps its connections, so the server cannot distinguish it from a slow
      # process.
      it "lets the holder renew and release at once, whenever a waiter is stopped", :timing do
        outcomes = groups.flat_map do |statements|
          leases_with_stopped_waiters(statements) do |leases|
            leases.zip(statements).flat_map do |lease, statement|
              %i[extend release].map do |call|
                [statement, call, seconds_or_error { lease.public_send(call) }]
              end
            end
          end
        end
        bad = outcomes.reject { |_, _, outcome| outcome.is_a?(Float) && outcome < 1.0 }
        expect(bad).to be_empty
      end

      it "renews a lease by itself while a waiter is stopped, whenever that was" do
        lost = groups.flat_map do |statements|
          leases_with_stopped_waiters(statements, ttl: 4, renew: true) do |leases|
            last = leases.map(&:valid_until).max
            eventually(6) { Plock::Clock.now > last }
            statements.zip(leases).reject { |_, lease| lease.valid? }.map(&:first)
          end
        end
        expect(lost).to be_empty
      end

      it "gives the key to another caller within 6 s of its release, though a waiter is stopped",
         :timing do
        groups.first(3).each do |statements|
          patient = database_store(model, pool_size: 16)
          leases_with_stopped_waiters(statements) do |leases|
            outcomes = leases.map do |lease|
              background do
                let_go(lease)
                seconds_or_error { patient.acquire(lease.key, ttl: 30, wait: 8) { nil } }
              end
            end
            bad = statements.zip(outcomes.map(&:value)).reject do |_, outcome|
              outcome.is_a?(Float) && outcome < 6.0
            end
            expect(bad).to be_empty
          end
        end
      end

      # Kills the waiter's process. On PostgreSQL, also waits until the server has noticed that.
      # Until then, the waiter seems to be alive.
      define_method(:kill_waiter) do |child|
        at = "WHERE name = '#{store.status(key).store_key}' AND fence IS NULL ORDER BY id LIMIT 1"
        holder = model.connection.select_value("SELECT holder FROM plock_claims #{at}")
        end_child(child)
        next unless database == :postgresql

        session = Integer(holder.split[3].split("@").last)
        sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = #{session}"
        eventually(5) { model.connection.select_value(sql).zero? }
      end

      # The killed waiter's place stays in the queue for seconds. The next waiter must be served
      # before that place is removed.
      it "passes the key to the next waiter soon after a release, though the first was killed",
         :timing do
        lease = store.acquire(key, ttl: 30)
        first, second = Array.new(2) do |number|
          child = child do |parent|
            parent.tell(:asks)
            database_store(model).acquire(key, ttl: 30, wait: 30) { monotonic }
          end
          child.hear
          eventually(5) { store.status(key).waiters.size == number + 1 }
          child
        end
        kill_waiter(first)
        released_at = monotonic
        lease.release
        expect(second.result - released_at).to be < (database == :postgresql ? 0.3 : 1.2)
      end

      it "gives a free key to a caller without patience, though its only waiter was killed",
         :timing do
        lease = store.acquire(key, ttl: 30)
        waiter = child do |parent|
          parent.tell(:asks)
          database_store(model).acquire(key, ttl: 30, wait: 30) { nil }
        end
        waiter.hear
        eventually(5) { store.status(key).waiters.size == 1 }
        kill_waiter(waiter)
        lease.release
        limit = database == :postgresql ? 0.3 : 1.2
        seconds = elapsed { eventually(10) { store.try_acquire(key, ttl: 30) { true } } }
        expect(seconds).to be < limit
      end
    end
  end
end
