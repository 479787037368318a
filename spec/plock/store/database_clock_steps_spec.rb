# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"
require "support/store_contract"

# Simulates a change of the database's clock by moving the times in the rows in the opposite
# direction.
RSpec.describe Plock::Store::Database, "whose clock is set" do
  include Support::DatabaseExamples
  include Support::StoreContract

  hour = 3_600

  let!(:key) { "clock:#{SecureRandom.hex(8)}" }

  Support::DatabaseExamples::ALL.each do |name, database|
    describe "on #{name}", needs: Support::Databases::PROGRAMS[database] do
      let!(:model) { Support::Databases.model(database) }
      let(:store) { database_store(model, **Support::Databases::PATIENT) }
      let(:other) { database_store(model, **Support::Databases::PATIENT) }

      def set_back(seconds, lock = key)
        moved =
          %w[acquired_at expires_at]
            .map { |moment| "#{moment} = #{moment} + #{seconds * 1_000_000}" }
            .join(", ")
        store_key = status_of(lock).store_key
        %w[plock_leases plock_claims].each do |table|
          model.lease_connection.execute(
            "UPDATE #{table} SET #{moved} WHERE name = '#{store_key}' AND expires_at > 0"
          )
        end
      end

      def set_forward(seconds) = set_back(-seconds)

      # Leaves a lease behind, as if its holder had ended without releasing it.
      def leave_behind(ttl) = kept(store.acquire(key, ttl: ttl))

      def enter(wait) = other.acquire(key, ttl: 5, wait: wait) { :entered }

      describe "back" do
        it "ends an unreleased lease after its ttl, for a new waiter" do
          leave_behind(0.5)
          set_back(hour)
          expect(enter(10)).to be(:entered)
        end

        it "ends it for a waiter that waits already" do
          leave_behind(4)
          waiter = background { enter(20) }
          await_waiters(1)
          set_back(hour)
          expect(waiter.value).to be(:entered)
        end

        it "ends it for callers without patience, too" do
          leave_behind(0.5)
          set_back(hour)
          eventually(10) { other.try_acquire(key) { :entered } }
        end

        it "ends it for a caller that acquires several keys" do
          leave_behind(0.5)
          set_back(hour)
          expect(other.acquire_all([key, "#{key}:2"], wait: 10) { :entered }).to be(:entered)
        end

        it "ends a lease that is shared" do
          semaphore = store.semaphore(key, permits: 1)
          kept(semaphore.acquire(ttl: 0.5))
          set_back(hour, semaphore)
          expect(other.semaphore(key, permits: 1).acquire(wait: 10) { :entered }).to be(:entered)
        end

        it "ends a lease that was extended" do
          lease = leave_behind(60)
          lease.extend(ttl: 2)
          set_back(hour)
          lease.extend(ttl: 2)
          expect(enter(10)).to be(:entered)
        end

        it "ends the time for which a key stays taken" do
          store.acquire(key, at_least: 0.5) { nil }
          set_back(hour)
          expect(enter(10)).to be(:entered)
        end

        it "admits no caller beside a valid lease" do
          lease = leave_behind(10)
          set_back(hour)
          expect(other.try_acquire(key, wait: 1) { :entered }).to be_nil
          expect([lease.valid?, lease.release]).to eq([true, true])
        end

        it "admits no caller beside a lease that has been renewed since" do
          lease = kept(store.acquire(key, ttl: 3, renew: true))
          set_back(hour)
          expect(other.try_acquire(key, wait: 4) { :entered }).to be_nil
          expect([lease.valid?, lease.release]).to eq([true, true])
        end

        it "admits no caller beside leases that have been renewed together since" do
          names = [key, "#{key}:2", "#{key}:3"]
          leases = names.map { |each| kept(store.acquire(each, ttl: 3, renew: true)) }
          names.each { |each| set_back(hour, each) }
          entered =
            names.map { |each| background { other.try_acquire(each, wait: 4) { :entered } } }
          expect(entered.map(&:value)).to eq([nil] * 3)
          expect(leases.map(&:release)).to eq([true] * 3)
        end

        it "admits no caller beside a shared lease that has been renewed since" do
          semaphore = store.semaphore(key, permits: 1)
          lease = kept(semaphore.acquire(ttl: 3, renew: true))
          set_back(hour, semaphore)
          expect(other.semaphore(key, permits: 1).try_acquire(wait: 4) { :entered }).to be_nil
          expect([lease.valid?, lease.release]).to eq([true, true])
        end

        it "admits no caller beside one that adopted it since" do
          dump = leave_behind(3).dump
          set_back(hour)
          lease = kept(other.adopt(dump, ttl: 30))
          expect(store.try_acquire(key, wait: 4) { :entered }).to be_nil
          expect(lease.release).to be(true)
        end

        it "keeps no place in the queue for a waiter that is gone" do
          lease = leave_behind(60)
          place =
            "SELECT name, 'gone:#{key}', acquired_at, acquired_at + 1000000, holder " \
            "FROM plock_leases WHERE name = '#{lease.store_key}'"
          model.lease_connection.execute(
            "INSERT INTO plock_claims (name, token, acquired_at, expires_at, holder) #{place}"
          )
          model.lease_connection.execute(
            "UPDATE plock_leases SET waiting = 1 WHERE name = '#{lease.store_key}'"
          )
          set_back(hour)
          lease.release
          expect(enter(10)).to be(:entered)
        end

        it "has fences that grow" do
          fence = leave_behind(0.5).fence
          set_back(hour)
          expect(other.acquire(key, wait: 10, &:fence)).to be > fence
        end

        it "has fences that grow after keys that were free for a day have been forgotten" do
          days = ->(count) { count * 24 * hour * 1_000_000 }
          lease = leave_behind(30)
          set_back(3 * 24 * hour)
          row = "name = '#{lease.store_key}'"
          fence = model.lease_connection.select_value(
            "SELECT fence + #{days.call(3)} FROM plock_leases WHERE #{row}"
          )
          lease.extend
          lease.release
          model.lease_connection.execute(
            "UPDATE plock_leases SET fence = #{fence}, " \
            "acquired_at = acquired_at - #{days.call(2)} WHERE #{row}"
          )
          store.instance_variable_get(:@site).ask(:prune, by: monotonic + 20)
          expect(other.acquire(key, wait: 10, &:fence)).to be > fence
        end
      end

      it "forward ends leases early, and their holders learn it at the next renewal" do
        lease = kept(store.acquire(key, ttl: 12, renew: true))
        set_forward(hour)
        later = kept(other.acquire(key, ttl: 30))
        expect(later.fence).to be > lease.fence
        warnings { eventually(8) { lease.lost? } } # the lease would expire only after 12 s
      end
    end
  end
end
