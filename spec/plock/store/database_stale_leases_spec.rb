# frozen_string_literal: true

require "spec_helper"
require "plock/store/advisory"
require "plock/store/memcached"
require "support/memcached"
require "support/database_examples"

# If a block began with an expired lease, it could run at the same time as the next holder's block.
RSpec.describe "The lease with which a block begins" do
  include Support::DatabaseExamples

  ttl = 0.8
  let!(:key) { "stale:#{SecureRandom.hex(8)}" }

  # Returns whether the leases were valid when the block began, or the error if no block ran.
  def validity
    yield ->(*leases) { leases.flatten.map(&:valid?) }
  rescue Plock::Error => e
    e
  end

  Support::DatabaseExamples::ALL.each do |name, database|
    describe "on #{name}", needs: Support::Databases::PROGRAMS[database] do
      let!(:model) { Support::Databases.model(database) }
      let(:store) { database_store(model, attempt_timeout: 10, release_timeout: 10) }
      let(:other) { database_store(model, **Support::Databases::PATIENT) }

      # Runs the work while another transaction locks the row for longer than the ttl.
      define_method(:behind_a_transaction) do |store_key, &work|
        asking = nil
        with_row_locked(model, store_key) do
          asking = await_sleep(background { validity(&work) })
          sleep(2 * ttl)
        end
        asking.value
      end

      # A lease that is lost in its block also causes a warning.
      around { |example| warnings { example.run } }

      it "is valid, though another transaction had the key's row for longer than the ttl" do
        store_key = store.acquire(key, &:store_key)
        outcome = behind_a_transaction(store_key) do |check|
          store.acquire(key, ttl: ttl, wait: 15, &check)
        end
        expect(outcome).to eq([true])
      end

      it "is valid or nil for a caller without patience" do
        store_key = store.acquire(key, &:store_key)
        outcome = behind_a_transaction(store_key) do |check|
          store.try_acquire(key, ttl: ttl, &check)
        end
        expect(outcome).to eq([true]).or(be_nil).or(be_a(Plock::UnavailableError))
      end

      it "is valid for each of several keys" do
        keys = %w[a b c].map { |part| "#{key}:#{part}" }
        store_keys = store.acquire_all(keys) { |leases| leases.map(&:store_key) }
        outcome = behind_a_transaction(store_keys.max) do |check|
          store.acquire_all(keys, ttl: ttl, wait: 15, &check)
        end
        expect(outcome).to eq([true] * 3)
      end

      it "is valid after an adoption, or the adoption fails" do
        lease = other.acquire(key, ttl: 30)
        store_key = lease.store_key
        dump = lease.dump
        outcome = behind_a_transaction(store_key) { |check| store.adopt(dump, ttl: ttl, &check) }
        expect(outcome).to eq([true]).or(be_a(Plock::Error))
      ensure
        other.break(key)
      end

      # the other databases read the time only after they have locked the row
      next unless database == :postgresql

      it "is valid for a waiter that comes to its turn while another transaction has the row" do
        store_key = store.acquire(key, &:store_key)
        other.acquire(key, ttl: 3)
        waiter = background { validity { |check| store.acquire(key, ttl: ttl, wait: 20, &check) } }
        eventually(5) { other.status(key).waiters.size == 1 }
        with_row_locked(model, store_key) { sleep(3 + (2 * ttl)) }
        expect(waiter.value).to eq([true])
      end
    end
  end

  describe "that came over a slow line" do
    around { |example| warnings { example.run } }

    {
      "PostgreSQL" => [Support::Postgres, []], "MariaDB" => [Support::Mariadb, ["mysql2"]]
    }.each do |name, (kind, adapter)|
      [Plock::Store::Database, Plock::Store::Advisory].each do |store_class|
        it "is valid, or the call fails: #{store_class} on #{name}", needs: kind::PROGRAMS do
          Support::Databases.model(kind == Support::Postgres ? :postgresql : :mysql2)
          line = proxy(["127.0.0.1", kind.shared.port])
          model = model_of(kind.shared.tcp_config(*adapter, port: line.port))
          store = discard(store_class.new(model, attempt_timeout: 5), :close)
          store.acquire(key) { nil }
          line.delay(:reply, 2 * ttl)
          outcome = validity { |check| store.acquire(key, ttl: ttl, wait: 4, &check) }
          line.clear
          expect(outcome).to eq([true]).or(be_a(Plock::Error))
        end
      end
    end

    it "is valid, or the call fails: Plock::Store::Memcached",
       needs: Support::Memcached::PROGRAMS do
      line = proxy(["127.0.0.1", Support::Memcached.shared.port])
      address = "127.0.0.1:#{line.port}"
      store = discard(Plock::Store::Memcached.new(address, attempt_timeout: 5), :close)
      store.acquire(key) { nil }
      line.delay(:reply, 2 * ttl)
      outcome = validity { |check| store.acquire(key, ttl: ttl, wait: 4, &check) }
      line.clear
      expect(outcome).to eq([true]).or(be_a(Plock::Error))
    end
  end
end
