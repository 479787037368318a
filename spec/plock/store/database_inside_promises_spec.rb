# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"

RSpec.describe Plock::Store::Database, "with inside: true" do
  include Support::DatabaseExamples

  let!(:key) { "inside:#{SecureRandom.hex(8)}" }

  Support::DatabaseExamples::ALL.each do |name, database|
    describe "on #{name}", needs: Support::Databases::PROGRAMS[database] do
      let!(:tables) { Support::Databases.model(database) }
      let(:other) { database_store(tables, **Support::Databases::PATIENT) }

      # A model that also has a role for reading, on the same database.
      let(:model) do
        config = Support::Databases.config(database)
        made = Class.new(Support::Databases::Model)
        Support::Databases.const_set("Roles#{SecureRandom.hex(4)}", made)
        made.abstract_class = true
        made.connects_to(database: { writing: config, reading: config })
        discard(made.connection_handler, :clear_all_connections!)
        made
      end

      let(:store) { database_store(model, inside: true, **Support::Databases::PATIENT) }

      # A lease that is rolled back is never released, so its garbage collection causes a warning.
      around { |example| warnings { example.run } }

      it "takes the lease in the open transaction, though the caller is in a block that reads" do
        held = nil
        model.transaction do
          model.connected_to(role: :reading) { store.acquire(key, ttl: 30, wait: 0) }
          held = other.status(key).held?
          raise ActiveRecord::Rollback
        end
        expect([held, other.status(key).held?]).to eq([false, false])
      ensure
        other.break(key)
      end

      it "releases in the open transaction, though the caller is in a block that reads" do
        lease = store.acquire(key, ttl: 30)
        held = nil
        model.transaction do
          model.connected_to(role: :reading) { lease.release }
          held = other.status(key).held?
        end
        expect([held, other.status(key).held?]).to eq([true, false])
      end

      it "is free in the end, though the transaction is rolled back in which it was released" do
        lease = store.acquire(key, ttl: 30)
        model.transaction do
          expect(lease.release).to be(true)
          raise ActiveRecord::Rollback
        end
        eventually(10) { !other.status(key).held? }
      end

      it "is free in the end, though the savepoint is rolled back in which it was released" do
        model.transaction do
          lease = store.acquire(key, ttl: 30, wait: 0)
          model.transaction(requires_new: true) do
            expect(lease.release).to be(true)
            raise ActiveRecord::Rollback
          end
        end
        eventually(10) { !other.status(key).held? }
      end

      it "can be extended in the transaction in which it was taken" do
        lease = nil
        model.transaction do
          lease = store.acquire(key, ttl: 10, wait: 0)
          lease.extend(ttl: 30)
        end
        expect(lease.remaining).to be > 20
        expect(other.status(key).remaining).to be > 20
        expect(lease.release).to be(true)
      end

      it "ends when it did before if the savepoint is rolled back in which it was extended" do
        lease = nil
        model.transaction do
          lease = store.acquire(key, ttl: 30, wait: 0)
          model.transaction(requires_new: true) do
            2.times { |number| lease.extend(ttl: 60 * (number + 1)) }
            raise ActiveRecord::Rollback
          end
          expect(lease.remaining).to be_between(20, 30)
          model.transaction(requires_new: true) { lease.extend(ttl: 40) }
        end
        expect(lease.remaining).to be_between(30, 40)
        expect(other.status(key).remaining).to be_between(lease.remaining, 40)
        lease.release
      end

      it "refuses a release or extension by another thread while that transaction is open" do
        lease = refused = nil
        model.transaction do
          lease = store.acquire(key, ttl: 30, wait: 0)
          refused = background { [lease.extend(ttl: 30)] rescue $!.class }.value
        end
        expect([refused, lease.valid?, lease.release]).to eq([Plock::UnsupportedError, true, true])
        expect(other.status(key)).not_to be_held
      end

      it "is released after that transaction where another thread releases it before" do
        model.transaction do
          lease = store.acquire(key, ttl: 30, wait: 0)
          expect { background { lease.release }.value }.to raise_error(
            Plock::UnsupportedError, /still open/
          )
        end
        eventually(10) { !other.status(key).held? }
      end

      it "is lost, and says so, once the savepoint is rolled back in which it was taken" do
        lease = nil
        model.transaction do
          model.transaction(requires_new: true) do
            lease = store.acquire(key, ttl: 30, wait: 0)
            raise ActiveRecord::Rollback
          end
          expect([lease.valid?, lease.lost?]).to eq([false, true])
        end
      end

      it "is lost, and says so, once the transaction is rolled back in which it was taken" do
        lease = nil
        model.transaction do
          lease = store.acquire(key, ttl: 30, wait: 0)
          raise ActiveRecord::Rollback
        end
        expect([lease.valid?, lease.lost?]).to eq([false, true])
      end

      # Rails can run each test in a transaction that it rolls back afterwards.
      describe "in a test whose transaction is rolled back" do
        around do |example|
          pool = model.connection_pool
          pool.pin_connection!(true)
          model.lease_connection
          example.run
        ensure
          pool.unpin_connection!
        end

        it "acquires with the patience that it has by default" do
          expect(store.acquire(key, ttl: 5) { :entered }).to be(:entered)
        end

        it "acquires with renew: and on_lost:" do
          value = store.acquire(key, ttl: 5, renew: true, on_lost: ->(*) {}) { :entered }
          expect(value).to be(:entered)
        end

        it "acquires several keys, and what is shared" do
          taken = [store.acquire_all([key, "#{key}:2"], ttl: 5) { :all },
                   store.read_write_lock(key).read(ttl: 5) { :shared }]
          expect(taken).to eq(%i[all shared])
        end
      end
    end
  end
end
