# frozen_string_literal: true

require "spec_helper"
require "support/lockers"

Support::Databases::NAMES.each do |name|
  RSpec.describe Locker, "on #{name}", needs: Support::Databases::PROGRAMS[name] do
    include Support::Lockers

    let!(:model) { Support::Lockers.model(name) }
    let!(:key) { "locker:#{SecureRandom.hex(8)}" }

    def locker(**options) = described_class.new(key, { model: model }.merge(options))

    def run(**options, &block) = described_class.run(key, { model: model }.merge(options), &block)

    it "says whether the block has run, and tells it the sequence" do
      expect(run { |sequence| expect(sequence).to be(1) }).to be(true)
      expect(run { |sequence| expect(sequence).to be(2) }).to be(true)
      expect(row).to have_attributes(locked_by: nil, sequence: 2)
    end

    it "skips the block if it is held, even by the same thread" do
      run { expect(run { raise "entered" }).to be(false) }
      holder = hold_in_another
      expect(run { raise "entered" }).to be(false)
      holder.tell(:go)
      expect(holder.result).to eq([:ran, true])
    end

    it "skips the block if it is held through the same object, and keeps it" do
      mine = locker
      mine.run do |first|
        expect(mine.run { raise "entered" }).to be(false)
        expect(background { mine.run { raise "entered" } }.value).to be(false)
        expect(run { raise "entered" }).to be(false)
        expect(first).to be(1)
      end
      expect(mine.run { |sequence| expect(sequence).to be(2) }).to be(true)
      expect(row).to have_attributes(locked_by: nil, sequence: 2)
    end

    it "lets in one after the other who wait through the same object" do
      mine = locker(blocking: true)
      entered, leave = Queue.new, Queue.new
      threads = Array.new(3) { background { mine.run { (entered << true) && leave.pop } } }
      3.times do |number|
        entered.pop
        threads.each { |thread| await_sleep(thread) if thread.alive? }
        expect([entered.size, row.sequence]).to eq([0, number + 1])
        leave << true
      end
      expect(threads.map(&:value)).to eq([true] * 3)
    end

    it "raises where its block would wait for itself through the same object" do
      mine = locker(blocking: true)
      mine.run do
        expect { mine.run { raise "entered" } }.to raise_error(Plock::UnsupportedError, /itself/)
        expect(mine.run(false) { raise "entered" }).to be(false)
      end
      expect(row.locked_by).to be_nil
    end

    it "is entered again through an object whose identifier was set, and tells of the loss" do
      mine = locker.tap { |one| one.identifier = "mine:#{key}" }
      again = nil
      expect { mine.run { again = mine.run { nil } } }.to raise_error(Locker::LockStolen)
      expect(again).to be(true)
    end

    it "writes what the original reads" do
      asked = Time.now
      run(lock_for: 20) do
        found = row
        expect(found.locked_by).to match(
          /\Ahost:#{Regexp.escape(Socket.gethostname)} pid:#{Process.pid} guid:\h{32}\z/
        )
        expect(found.locked_at).to be_within(2).of(asked)
        expect(found.locked_until - found.locked_at).to be_within(0.1).of(20)
      end
    end

    it "gets, renews and releases, and says whether it could" do
      first, second = locker, locker
      expect([first.get, first.locked, first.sequence]).to eq([true, true, 1])
      expect([second.get, second.locked, second.sequence]).to eq([false, false, nil])
      expect(second.renew).to be(false)
      expect(second.release).to be(false)
      before = row.locked_until
      expect(first.renew).to be(true)
      eventually { first.renew && row.locked_until > before } # repeats until the clock moves
      expect([first.get, first.sequence]).to eq([true, 2])
      expect([first.release, first.locked, first.release]).to eq([true, false, false])
      expect([second.get, second.sequence, second.release]).to eq([true, 3, true])
    end

    it "makes the row when it is made, as the original, and changes nothing of one that is there" do
      locker
      expect(row).to have_attributes(key: key, locked_by: nil, locked_until: nil, sequence: 0)
      first = locker.tap(&:get)
      expect { locker }.not_to(change { row.attributes })
      expect([first.sequence, first.release]).to eq([1, true])
      expect(model.where(key: key).count).to be(1)
    end

    # On the other databases, the column has no limit.
    it "refuses a key that the table cannot have, and takes no other row for it",
       if: %i[mysql2 trilogy].include?(name) do
      long = key.ljust(300, "x")
      expect { described_class.run(long, model: model) { raise "entered" } }.to raise_error(
        ActiveRecord::ValueTooLong
      )
      expect { described_class.new(long, model: model) }.to raise_error(ActiveRecord::ValueTooLong)
      expect(model.where(key: long[0, 255])).to be_empty
    end

    context "with columns of your own that must be filled" do
      let!(:model) do
        Class.new(Support::Lockers.model(name)) do
          self.table_name = "timed_locks"
          lease_connection.create_table(:timed_locks, force: true) do |table|
            table.string :key, index: { unique: true }
            table.string :locked_by
            table.datetime :locked_at, :locked_until
            table.bigint :sequence, default: 0
            table.timestamps
          end
        end
      end

      after { model.lease_connection.drop_table(:timed_locks) }

      it "has the model make the row, as the original does" do
        expect(run { |sequence| expect(sequence).to be(1) }).to be(true)
        expect(row.created_at).to be_within(60).of(Time.now)
        expect(described_class.new("#{key}:2", model: model).run { nil }).to be(true)
        expect(run { expect(run { raise "entered" }).to be(false) }).to be(true)
      end

      it "has it made in a transaction of the caller's, and by several at once" do
        model.transaction do
          expect(run { nil }).to be(true)
          raise ActiveRecord::Rollback
        end
        expect(row).to be_nil
        gate = Queue.new
        threads = Array.new(4) { background { gate.pop && locker } }
        4.times { gate.push(:go) }
        threads.each(&:join)
        expect(model.where(key: key).count).to be(1)
      end
    end

    it "makes one row where many are made at once" do
      gate = Queue.new
      threads = Array.new(4) { background { gate.pop && locker } }
      4.times { gate.push(:go) }
      threads.each(&:join)
      expect(model.where(key: key).count).to be(1)
    end

    # InnoDB can lock the gap in which a missing row would be. If two callers kept that lock until
    # they inserted the row, they would deadlock.
    it "waits for another caller that makes the same row, and keeps nothing locked meanwhile",
       if: %i[mysql2 trilogy].include?(name) do
      connection = model.lease_connection
      waits = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' " \
              "AND trx_query LIKE #{connection.quote("%#{key}%")}"
      # the server updates innodb_trx at most once every 0.1 s
      look = -> do
        connection.uncached do
          connection.select_value("SELECT SLEEP(0.15)") && connection.select_value(waits)
        end
      end
      made = model.transaction do
        model.lock.find_by(key: key)
        thread = background { locker.get }
        eventually { look.call == 1 }
        model.create!(key: key)
        thread
      end
      expect(made.value).to be(true)
      expect(model.where(key: key).count).to be(1)
    end

    it "has what it was given" do
      expect(locker).to have_attributes(
        renew_every: 10.0, lock_for: 30.0, blocking: false, locked: false, key: key, model: model
      )
      expect(locker(blocking: true, lock_for: 5, renew_every: 1)).to have_attributes(
        renew_every: 1.0, lock_for: 5.0, blocking: true
      )
      mine = locker.tap { |one| one.identifier = "mine" }
      mine.get
      expect(row.locked_by).to eq("mine")
      expect(mine.release).to be(true)
    end

    it "takes over a lock that was not renewed" do
      first, second = locker(lock_for: 0.3, renew_every: 0.2), locker
      first.get
      eventually { second.get }
      expect(second.sequence).to be(2)
      expect([first.renew, first.release]).to eq([false, false])
      expect(second.release).to be(true)
    end

    it "renews it as long as the block runs" do
      run(lock_for: 2, renew_every: 0.2) do
        first = row.locked_until
        eventually(10) { row.locked_until > first + 2.1 }
        expect(in_child { run { raise "entered" } }).to be(false)
      end
    end

    it "gives it back where the block raises, throws, or its thread is killed" do
      expect { run { raise IOError } }.to raise_error(IOError)
      catch(:out) { run { throw :out } }
      inside = Queue.new
      thread = background { run { (inside << true) && sleep } }
      inside.pop
      thread.kill.join
      expect(run { nil }).to be(true)
    end

    it "is its parent's alone where a block is forked in two" do
      mine = locker
      child = owner = nil
      mine.run do
        child = Process.fork
        next unless child # in the child, the block ends here

        expect(Process.wait2(child).last).to be_success
        owner = row.locked_by
      end
      exit!(mine.release || mine.renew || row.locked_by.nil? ? 1 : 0) unless child
      expect(owner).to eq(mine.identifier)
      expect(row.locked_by).to be_nil
    end

    it "waits until it is released" do
      holder = hold_in_another
      waiter = background { run(blocking: true) { :entered } }
      await_sleep(waiter)
      holder.tell(:go)
      expect(waiter.join(10)&.value).to be(true)
    end

    it "excludes processes from one another" do
      file =
        File
          .join(Support::Supervisor.folder, SecureRandom.hex(8))
          .tap { |path| File.write(path, "0") }
      children = Array.new(4) do
        child do
          5.times do
            run(blocking: true) do
              File.write(file, (Integer(File.read(file)).tap { sleep(0.001) } + 1).to_s)
            end
          end
        end
      end
      children.each { |child| child.result(within: 60) }
      expect(File.read(file)).to eq("20")
      expect(row.sequence).to be(20)
    end

    it "lets one who waits take over from one that was killed" do
      holder = hold_in_another(lock_for: 3, renew_every: 0.3)
      waiter =
        child do |parent|
          parent.tell(:asks) && run(blocking: true) { |sequence| expect(sequence).to be(2) }
        end
      waiter.hear
      eventually { row.locked_until > row.locked_at + 3.1 } # renewed
      holder.signal(:KILL)
      expect(waiter.result).to be(true)
    end

    it "raises LockStolen in the block within one renewal" do
      holder = hold_in_another(lock_for: 30, renew_every: 0.3)
      stolen_at = monotonic
      model.where(key: key).update_all(locked_by: "a thief")
      word, heard_at = holder.result
      expect(word).to be(:stolen)
      expect(heard_at - stolen_at).to be_between(0, 10) # long before the lock expires
      expect(row.locked_by).to eq("a thief")
    end

    it "notices a theft between two renewals, at the end of the block" do
      expect { run { model.where(key: key).update_all(locked_by: "a thief") } }.to raise_error(
        Locker::LockStolen, /#{key}/
      )
      model.where(key: key).update_all(locked_by: nil)
      expect {
        run { model.where(key: key).update_all(locked_by: "a thief") && raise(IOError) }
      }.to raise_error(IOError)
    end

    it "raises LockStolen nowhere but in the block" do
      20.times do
        model.where(key: key).update_all(locked_by: nil)
        after = false
        begin
          run(lock_for: 5, renew_every: 0.002) do
            model.where(key: key).update_all(locked_by: "a thief") && sleep(rand(0.004))
          end
        rescue Locker::LockStolen
          after = true
        end
        expect(after).to be(true)
        sleep(0.002)
      end
    end

    it "takes a date, or a text, as the time before, and an argument of renew" do
      one = locker.tap { |mine| mine.get && mine.release }
      model.where(key: key).update_all(locked_until: Time.utc(2020, 1, 2, 12))
      described_class.prune("2020-01-02 11:59:59", model: model)
      described_class.prune("2020-01-02", model: model)
      described_class.prune(Date.new(2020, 1, 2), model: model)
      expect(row).not_to be_nil
      expect(described_class.prune(Date.new(2020, 1, 3), model: model)).to be >= 1
      expect([one.get, one.renew(Thread.current), one.release]).to eq([true] * 3)
      model.where(key: key).update_all(locked_until: Time.utc(2020, 1, 2, 12))
      expect(described_class.prune("2020-01-02 12:00:01", model: model)).to be >= 1
    end

    it "forgets rows of a time before" do
      old, held = locker, described_class.new("#{key}:held", { model: model })
      old.get && old.release && held.get
      model.where(key: [key, held.key]).update_all(locked_until: Time.now.utc - 3600)
      model.where(key: held.key).update_all(locked_until: Time.now.utc + 3600)
      expect(described_class.prune(Time.now - 7200, model: model)).to be(0)
      expect(described_class.prune(Time.now, model: model)).to be >= 1
      expect([row, row(held.key).nil?]).to eq([nil, false])
      expect(old.get && old.sequence).to be(1)
      [old, held].each(&:release)
    end

    # On Ruby 3.1, the clients of the other databases block the Fiber scheduler.
    if name == :sqlite || RUBY_VERSION >= "3.2"
      it "lets fibers in one after the other", :fibers do
        # Active Record requires this setting for fibers. It is changed in a child, because
        # threads in the middle of a query fail when it changes.
        values = in_child do
          ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
          Sync do |task|
            tasks = Array.new(3) { task.async { run(blocking: true) { sleep(0.01) } } }
            tasks.map(&:wait)
          end
        end
        expect(values).to eq([true] * 3)
      end
    end
  end
end

RSpec.describe Locker do
  let(:model) { Support::Lockers.model(:sqlite) }

  it "refuses what cannot be right" do
    {
      { renew_every: 0 } => "renew_every must be greater than 0",
      { lock_for: 0 } => "lock_for must be greater than 0",
      { renew_every: 30 } => "renew_every must be less than lock_for"
    }.each do |options, message|
      expect { described_class.new("key", { model: model }.merge(options)) }.to raise_error(
        ArgumentError, message
      )
    end
    expect { described_class.new("key", model: model, wait: 3) }.to raise_error(
      ArgumentError, /unknown option: :wait/
    )
    expect { described_class.new("key", model: model).run }.to raise_error(ArgumentError, /block/)
  end

  it "has a model for all, and Lock where there is none" do
    expect { described_class.new("key") }.to raise_error(NameError, /Lock/)
    stub_const("Lock", model)
    expect(described_class.new("key").model).to be(model)
    other = Support::Lockers.model(:sqlite).dup
    described_class.model = other
    expect(described_class.new("key").model).to be(other)
  ensure
    described_class.model = nil
  end

  it "has a generator for a model of any name" do
    files = Support::TransactionalLocks.generate(model, "locker", "JobLock")
    expect(files.map { |file| File.basename(file).sub(/\A\d+_/, "") }).to match_array(
      %w[job_lock.rb create_job_locks.rb]
    )
    expect(files.map { |file| File.read(file) }.join).to include(
      "class JobLock < ApplicationRecord", "create_table :job_locks",
      "Migration[#{ActiveRecord::Migration.current_version}]"
    )
    expect(
      Support::TransactionalLocks.generate(model, "locker").map { |file| File.read(file) }.join
    ).to include("class Lock <", ":locks")
  end
end
