# frozen_string_literal: true

require "spec_helper"
require "plock/compat/with_transactional_lock"
require "support/databases"
require "support/pgbouncer"
require "support/transactional_locks"

Support::TransactionalLocks::DATABASES.each do |name|
  RSpec.describe WithTransactionalLock, "on #{name}", needs: Support::Databases::PROGRAMS[name] do
    include Support::TransactionalLocks

    let!(:model) { Support::TransactionalLocks.model(name) }
    let!(:lock) { "lock:#{SecureRandom.hex(8)}" }

    it "returns the block's value, and nil after a rollback" do
      expect(model.with_transactional_lock(lock) { :value }).to be(:value)
      expect(model.with_transactional_lock(lock) { raise ActiveRecord::Rollback }).to be_nil
      expect(model.new.with_transactional_lock(lock) { :value }).to be(:value)
    end

    it "needs a block, and a String for a name" do
      expect { model.with_transactional_lock(lock) }.to raise_error(ArgumentError, /block/)
      [nil, :name, 5].each do |wrong|
        expect { model.with_transactional_lock(wrong) { raise "entered" } }.to raise_error(
          TypeError
        )
      end
      expect {
        model.with_transactional_lock(lock, timeout: -1) { raise "entered" }
      }.to raise_error(ArgumentError, /timeout:/)
      expect { model.with_transactional_lock(lock, shared: 1) { raise "entered" } }.to raise_error(
        ArgumentError, /shared:/
      )
    end

    it "keeps others out until the transaction ends" do
      model.with_transactional_lock(lock) do
        expect(in_another(model) { free?(model, lock) }).to be(false)
      end
      expect(in_another(model) { free?(model, lock) }).to be(true)
    end

    it "keeps it until the outermost transaction ends, and lets its holder ask again" do
      model.transaction do
        model.with_transactional_lock(lock) { model.with_transactional_lock(lock) { :inside } }
        model.transaction(requires_new: true) { model.with_transactional_lock(lock) { :inside } }
        expect(in_another(model) { free?(model, lock) }).to be(false)
      end
      expect(in_another(model) { free?(model, lock) }).to be(true)
    end

    it "gives it back where the block raises, throws or breaks" do
      expect { model.with_transactional_lock(lock) { raise IOError } }.to raise_error(IOError)
      catch(:out) { model.with_transactional_lock(lock) { throw :out } }
      model.with_transactional_lock(lock) { break }
      expect(in_another(model) { free?(model, lock) }).to be(true)
    end

    it "lets others wait until it is free" do
      holder = hold_in_another(model, lock)
      waiter = background { model.with_transactional_lock(lock) { :entered } }
      await_lock_wait(model)
      holder.tell(:go)
      expect(waiter.join(10)&.value).to be(:entered)
    end

    it "waits no longer than timeout:, and leaves a transaction that was open before as it was",
       :timing do
      holder = hold_in_another(model, lock)
      model.transaction do
        model.lease_connection.execute("UPDATE counters SET value = 5 WHERE id = 1")
        [0, 0.2].each do |timeout|
          took = elapsed do
            expect {
              model.with_transactional_lock(lock, timeout: timeout) { raise "entered" }
            }.to raise_error(Plock::TimeoutError, /within/)
          end
          expect(took).to be_between(timeout, timeout + 1.5)
        end
        expect(
          model.lease_connection.select_value("SELECT value FROM counters WHERE id = 1")
        ).to be(5)
        raise ActiveRecord::Rollback
      end
      expect { model.with_transactional_lock(lock, timeout: 0) { raise "entered" } }.to raise_error(
        Plock::TimeoutError
      )
      holder.tell(:go)
      expect(model.with_transactional_lock(lock, timeout: 5) { :entered }).to be(:entered)
    end

    it "takes patience of any length" do
      [*[1e-6] * 20, 3e6, 31_622_400].each do |timeout|
        expect(model.with_transactional_lock(lock, timeout: timeout) { :entered }).to be(:entered)
      end
    end

    it "leaves the database's own limit as it was" do
      limit =
        name == :postgresql ? "SHOW lock_timeout" : "SELECT @@SESSION.innodb_lock_wait_timeout"
      model.transaction do
        before = model.lease_connection.select_value(limit)
        model.with_transactional_lock(lock, timeout: 3) do
          expect(model.lease_connection.select_value(limit)).to eq(before)
        end
        expect(model.lease_connection.select_value(limit)).to eq(before)
      end
    end

    it "can have any name" do
      names = [
        "*/ DROP TABLE counters; --", "/* /*", "'; SELECT 1; --", "\"", "\\", "a\0b", "\xFF\xFE",
        "x" * 10_000, "", "é", "\n--"
      ]
      names.each do |any|
        model.with_transactional_lock("#{lock}#{any}") do
          expect(in_another(model) { free?(model, "#{lock}#{any}") }).to be(false)
        end
        expect(
          model.with_transactional_lock("#{any}#{lock}", timeout: 3) do
            model.transaction { :value }
          end
        ).to be(:value)
      end
      expect(model.lease_connection.select_value("SELECT COUNT(*) FROM counters")).to be > 0
    end

    it "has no part in the query cache" do
      model.cache do
        read = -> { model.lease_connection.select_value("SELECT value FROM counters WHERE id = 2") }
        before = read.call
        in_another(model) do
          model.lease_connection.execute("UPDATE counters SET value = value + 1 WHERE id = 2") &&
            nil
        end
        expect(model.with_transactional_lock(lock) { read.call }).to be(before + 1)
        holder = hold_in_another(model, lock)
        2.times do
          expect { model.with_transactional_lock(lock, timeout: 0) { nil } }.to raise_error(
            Plock::TimeoutError
          )
        end
        holder.tell(:go) && holder.result
        expect(model.with_transactional_lock(lock, timeout: 0) { :entered }).to be(:entered)
      end
    end

    %i[read_committed repeatable_read].each do |isolation|
      it "loses nothing where 8 processes count, #{isolation}" do
        model.lease_connection.execute("UPDATE counters SET value = 0 WHERE id = 1")
        children =
          Array.new(8) { child { Support::TransactionalLocks.count(model, lock, isolation, 10) } }
        children.each { |child| child.result(within: 60) }
        expect(
          model.lease_connection.select_value("SELECT value FROM counters WHERE id = 1")
        ).to be(80)
      end

      it "never lets names block each other, #{isolation}" do
        names = Array.new(40) { |number| "#{lock}:#{number}" }
        names.first(20).each { |known| model.with_transactional_lock(known) { nil } }
        held = names.each_slice(2).map(&:first)
        holder = child do |parent|
          model.transaction(isolation: isolation) do
            nest(model, held.dup) { parent.tell(:held) && parent.hear }
          end
        end
        holder.hear
        (names - held).each do |other|
          model.transaction(isolation: isolation) { expect(free?(model, other)).to be(true) }
          expect(free?(model, other)).to be(true)
        end
        holder.tell(:go)
      end
    end

    it "sends one statement, and no other round trip" do
      2.times { model.with_transactional_lock(lock) { nil } }
      expect(
        statements(model) { model.with_transactional_lock(lock) { nil } }.grep_v(
          /\A(?:BEGIN|COMMIT)/i
        ).size
      ).to be(1)
      model.transaction do
        expect(
          statements(model) { model.with_transactional_lock(lock) { nil } }.grep_v(/\ABEGIN/i).size
        ).to be(1)
      end
    end

    it "leaves nothing behind if a waiter times out or is killed" do
      holder = hold_in_another(model, lock)
      unless name == :mysql2 # mysql2's client cannot be interrupted by Timeout
        expect {
          Timeout.timeout(0.2) { model.with_transactional_lock(lock) { raise "entered" } }
        }.to raise_error(Timeout::Error)
      end
      thread = background { model.with_transactional_lock(lock) { raise "entered" } }
      await_lock_wait(model)
      thread.kill
      eventually { !thread.alive? } # the client's own error does not matter
      holder.tell(:go) && holder.result
      eventually(15) { in_another(model) { free?(model, lock) } }
      expect(model.lease_connection.select_value("SELECT 1")).to be(1)
    end

    it "is free when its holder is killed" do
      holder = hold_in_another(model, lock)
      holder.signal(:KILL)
      expect(model.with_transactional_lock(lock, timeout: 10) { :entered }).to be(:entered)
    end
  end
end
