# frozen_string_literal: true

require "spec_helper"
require "tempfile"
require "plock/store/database"
require "support/databases"
require "support/store_contract"

# Returns the statements that this thread sends. Other threads are left out, because a store of an
# earlier example may still be cleaning up after an interrupt.
def statements
  sent = []
  me = Thread.current
  counting = ->(*, payload) do
    sent << payload[:sql] if payload[:name] == "Plock" && Thread.current.equal?(me)
  end
  ActiveSupport::Notifications.subscribed(counting, "sql.active_record") { yield }
  sent
end

Support::Databases::NAMES.each do |name|
  RSpec.describe Plock::Store::Database, "on #{name}", needs: Support::Databases::PROGRAMS[name] do
    include Support::StoreContract

    let!(:model) { Support::Databases.model(name) } # made before any fork
    let(:store) { new_store }
    let!(:key) { "database:#{SecureRandom.hex(8)}" }

    def new_store(**options) =
      discard(described_class.new(model, **Support::Databases::PATIENT, **options), :close)

    it "takes a key that is free in one statement, and releases it in another" do
      store.acquire(key) { nil }
      expect(statements { store.acquire(key, label: "why") { nil } }.size).to be(2)
    end

    it "keeps tokens out of what it tells of its statements" do
      token = nil
      sent = statements { store.acquire(key) { |lease| token = lease.token } }
      expect(sent.join).not_to include(token)
    end

    # On SQLite, Active Record 8 locks the whole database for writing at the beginning of each
    # transaction. So the store could not write while the caller's transaction is open.
    own_part = name != :sqlite || ActiveRecord::VERSION::MAJOR < 8

    it "has no part in the caller's transaction, and ends it neither way", if: own_part do
      model.transaction do
        model.lease_connection.execute("SELECT 1")
        lease = store.acquire(key, ttl: 30)
        expect(in_child { new_store.try_acquire(key) }).to be_nil
        lease.release
        expect(model.lease_connection.open_transactions).to be(1)
        lease = store.acquire(key, ttl: 30)
        discard(lease, :release)
        raise ActiveRecord::Rollback
      end
      expect(in_child { new_store.try_acquire(key) }).to be_nil
    end

    it "is kept out by a caller's transaction that has written, and let in after it",
       if: name == :sqlite do
      model.transaction do
        model.lease_connection.execute("DELETE FROM plock_claims WHERE 0 = 1")
        impatient = new_store(attempt_timeout: 0.2)
        expect { impatient.acquire(key, wait: 0) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
      end
      expect(store.acquire(key) { :entered }).to be(:entered)
    end

    it "is not unavailable to a waiter whose last attempt must wait for others",
       unless: name == :sqlite do
      writer = store.read_write_lock(key).write
      waiter = background { new_store.read_write_lock(key).read(wait: 1) { raise "entered" } }
      eventually { store.read_write_lock(key).status.waiters.size == 1 }
      model.transaction do
        model.lease_connection.execute("SELECT name FROM plock_leases FOR UPDATE")
        writer.release
        expect { waiter.value }.to raise_error(Plock::TimeoutError)
      end
      # the store removes the waiter's place in the background
      expect(store.read_write_lock(key).read(wait: 20) { :entered }).to be(:entered)
    end

    it "reports a collected lease before it answers a caller that has seen its key free" do
      order, released, go_on = Array.new(3) { Queue.new }
      replace(Plock::Log, :warn) { order << :told }
      replace(store, :give_back) do |original, *arguments|
        original.call(*arguments).tap { (released << true) && go_on.pop }
      end
      Thread.new { store.acquire(key, ttl: 60) && nil }.join
      eventually(10) { GC.start || !released.empty? }
      Plock::Dispatcher.post(-> { order << :seen }) # stands for a caller that finds the key free
      go_on << true
      expect(Array.new(2) { order.pop }).to eq(%i[told seen])
    end

    it "writes where the caller may only read" do
      ActiveRecord::Base.while_preventing_writes do
        expect(store.acquire(key) { :entered }).to be(:entered)
      end
    end

    it "needs none of the model's connections" do
      model.connection_pool.release_connection
      threads = Array.new(model.connection_pool.size) do
        ready = Queue.new
        background { model.lease_connection && (ready << true) && sleep }
        ready
      end
      threads.each(&:pop)
      expect(store.acquire(key) { :entered }).to be(:entered)
    end

    it "has fences that grow, also where the rows are deleted" do
      fence = store.acquire(key, &:fence)
      sleep 0.002 # SQLite's clock has a resolution of 1 ms
      model.lease_connection.execute("DELETE FROM plock_leases")
      expect(store.acquire(key, &:fence)).to be > fence
    end

    it "has fences that grow where the clock is set back" do
      lease = store.acquire(key)
      later = lease.fence + 3_600_000_000
      model.lease_connection.execute(
        "UPDATE plock_leases SET fence = #{later} WHERE name = '#{lease.store_key}'"
      )
      lease.release
      expect(store.acquire(key, &:fence)).to eq(later + 1)
    end

    it "forgets what has been free for a day, and nothing else" do
      old, held = [store.acquire(key), store.acquire("#{key}:held", ttl: 60)]
      old.release
      names = [old, held].map { |lease| "'#{lease.store_key}'" }.join(", ")
      model.lease_connection.execute(
        "UPDATE plock_leases SET acquired_at = acquired_at - 90000000000 WHERE name IN (#{names})"
      )
      store.instance_variable_get(:@site).instance_variable_set(:@prune_at, 0.0)
      store.acquire("#{key}:new") { nil }
      rows = -> do
        model.lease_connection.select_values(
          "SELECT name FROM plock_leases WHERE name IN (#{names})"
        )
      end
      eventually { rows.call == [held.store_key] }
      held.release
    end

    it "does not forget what is shared for longer than a day" do
      lock = store.read_write_lock(key)
      lease = lock.read(ttl: 60)
      model.lease_connection.execute(
        "UPDATE plock_leases SET acquired_at = acquired_at - 90000000000 " \
        "WHERE name = '#{lease.store_key}'"
      )
      site, deadline = store.instance_variable_get(:@site), Plock::Clock.now + 10
      site.work(deadline) { |connection| site.tables.prune(connection, deadline) }
      expect(lock.status).to be_held
      lease.release
    end

    it "renews no lease whose adopter was interrupted, at any step" do
      (1..300).step(3).find do |step|
        dump = store.acquire(key, ttl: 60).dump
        interrupted = interrupted_at(step) { store.adopt(dump, renew: true) { nil } }
        tended =
          store
            .instance_variable_get(:@scheduler)
            .instance_variable_get(:@entries)
            .to_h # nil if nothing was ever scheduled
            .keys
            .grep(Plock::Store::LeaseState)
        expect(tended.select { |grant| grant.ended.nil? }).to be_empty
        store.break(key)
        !interrupted
      end
    end

    it "serves processes in the order in which they came" do
      lease = store.acquire(key, ttl: 60)
      children = Array.new(4) do |number|
        child =
          child do |parent|
            parent.tell(:asks) &&
              new_store.acquire(key, ttl: 60, wait: 30) do
                [number, Process.clock_gettime(Process::CLOCK_MONOTONIC)]
              end
          end
        child.hear
        eventually(10) { store.status(key).waiters.size == number + 1 }
        child
      end
      lease.release
      expect(children.map(&:result).sort_by(&:last).map(&:first)).to eq([0, 1, 2, 3])
    end

    if name == :postgresql
      it "calls who waits in another process by the statement that releases", :timing do
        lease = store.acquire(key, ttl: 60)
        waiter =
          child do |parent|
            parent.tell(:asks) && new_store.acquire(key, ttl: 60, wait: 30) { monotonic }
          end
        waiter.hear
        eventually(10) { store.status(key).waiters.size == 1 }
        released_at = monotonic
        expect(statements { lease.release }.size).to be(1)
        expect(waiter.result - released_at).to be < 0.5 # without a notice, it would be up to 1 s
      end
    end

    it "stays taken for longer than fits into 32 bits of microseconds" do
      store.acquire(key, ttl: 60, at_least: 3_600) { nil }
      expect(store.status(key)).to have_attributes(held?: true, remaining: be_within(60).of(3_600))
      store.break(key)
      store.read_write_lock(key).read(at_least: 3_600) { nil }
      expect(store.read_write_lock(key).status).to have_attributes(
        held?: true, remaining: be_within(60).of(3_600)
      )
      store.read_write_lock(key).break
    end

    it "takes names that differ in anything for different ones" do
      names = ["#{key}a", "#{key}A", "#{key}a ", "#{key}á", "#{key}a\u0301", "#{key}a\t"]
      expect(names.map { |other| store.lock_acquire(other, "owner:#{other}", 30) }).to all(be(true))
      expect(names.map { |other| store.lock_release(other, "owner:#{other}") }).to all(be(true))
      expect(store.lock_acquire("#{key}'\\\"%_`--;\n$1", "o'w\\n", 30)).to be(true)
      expect(store.lock_release("#{key}'\\\"%_`--;\n$1", "o'w\\n ")).to be(false)
      expect(store.lock_release("#{key}'\\\"%_`--;\n$1", "o'w\\n")).to be(true)
    end

    it "refuses an owner a key that it holds" do
      expect(
        [
          store.lock_acquire(key, "me", 30), store.lock_acquire(key, "me", 30),
          store.lock_release(key, "me")
        ]
      ).to eq([true, false, true])
    end

    it "refuses a name that does not fit" do
      ["", "a" * 129, "\0", "\xFF"].each do |other|
        expect { store.lock_acquire(other, "me", 30) }.to raise_error(
          ArgumentError, /1 to 128 characters/
        )
        expect { store.lock_release(other, "me") }.to raise_error(
          ArgumentError, /1 to 128 characters/
        )
      end
    end

    it "excludes processes from one another" do
      counter = Tempfile.new("counter")
      counter.write("0") && counter.flush
      children = Array.new(4) do
        child do
          mine = new_store
          10.times do
            mine.acquire(key, ttl: 30, wait: 60) do
              value = Integer(File.read(counter.path))
              Thread.pass
              File.write(counter.path, (value + 1).to_s)
            end
          end
          :done
        end
      end
      expect(children.map { |child| child.result(within: 60) }).to eq([:done] * 4)
      expect(File.read(counter.path)).to eq("40")
    end

    # If an exception ends the process, it is still in `$!` in the at_exit block. There, the sqlite3
    # gem would raise that exception again.
    it "serves in an at_exit block, whatever ends the process" do
      place = Marshal.dump(Support::Databases.config(name)).unpack1("H*")
      store.acquire(key) { nil }
      [["exit 3", 3], ["raise 'over'", 1]].each do |ending, status|
        output, ended = ruby(<<~RUBY, place, key)
          require "active_record"
          require "plock/store/database"
          ActiveRecord::Base.establish_connection(Marshal.load([ARGV[0]].pack("H*")))
          store = Plock::Store::Database.new(ActiveRecord::Base)
          key = ARGV[1]
          lease = store.acquire(key, ttl: 60)
          at_exit do
            p lease.release
            p store.acquire(key, ttl: 60) { :entered }
            p store.acquire_all([key, "#{key}:2"], ttl: 60) { :both }
          end
          #{ending}
        RUBY
        expect(output).to start_with("true\n:entered\n:both\n")
        expect([ended.exitstatus, store.status(key).held?]).to eq([status, false])
      end
    end

    it "passes on what a process held or waited for that was killed" do
      holder =
        child do |parent|
          new_store.acquire(key, ttl: 6, renew: true) { parent.tell(:held) && sleep }
        end
      holder.hear
      first =
        child do |parent|
          parent.tell(:asks) && new_store.acquire(key, ttl: 30, wait: 60) { :entered }
        end
      first.hear
      eventually(15) { store.status(key).waiters.size == 1 }
      second = background { store.acquire(key, ttl: 30, wait: 60) { :entered } }
      eventually(15) { store.status(key).waiters.size == 2 }
      [first, holder].each { |child| child.signal(:KILL) }
      expect(second.join(30)&.value).to be(:entered)
    end

    if name == :postgresql
      it "hears at once of what a forked child breaks" do
        lease = hold(ttl: Support::StoreContract::LONG, on_lost: ->(_) {})
        eventually(5) { store.instance_variable_get(:@site).hearing? }
        expect(in_child { store.break(key) }).to be(true)
        eventually(5) { lease.lost? }
      end
    end

    it "says what is missing where the tables are" do
      other = Class.new(model) { self.abstract_class = true }
      other.table_name_prefix = "missing_"
      expect { described_class.new(other).acquire(key) }.to raise_error(
        Plock::ConfigurationError, /plock:database/
      )
    end

    it "has nothing that would need a connection in what it shows" do
      expect(store.inspect).to match(/Database \w+:/)
      expect(store).to have_attributes(closed?: false, unverified?: false)
    end
  end
end

RSpec.describe Plock::Store::Database do
  it "keeps no statement of SQLite's that is not used again" do
    store = discard(described_class.new(Support::Databases.model(:sqlite)), :close)
    store.acquire("any") { nil }
    prepared = -> do
      ObjectSpace.each_object(SQLite3::Statement).count { |statement| !statement.closed? }
    end
    site, deadline = store.instance_variable_get(:@site), Plock::Clock.now + 10
    expect {
      site.work(deadline) do |it|
        50.times { |n| it.run("DELETE FROM plock_claims WHERE id = #{n + 1_000_000}", deadline) }
      end
    }.not_to change(&prepared)
  end

  it "refuses a model that has been connected to another kind of database",
     needs: Support::Postgres::PROGRAMS do
    model = Support::Databases.connect("Moved", Support::Databases.config(:sqlite))
    store = discard(described_class.new(model), :close)
    model.establish_connection(Support::Databases.config(:postgresql))
    expect { store.acquire("any") { raise "entered" } }.to raise_error(
      Plock::ConfigurationError, /Moved .*SQLite.*PostgreSQL/
    )
  end

  it "can be opened after interrupts that stopped the loading of its files" do
    output, = ruby(<<~RUBY)
      require "plock/store/database"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: File::NULL)
      loaded = TracePoint.new(:c_return) do |point|
        raise Interrupt if point.method_id.start_with?("require") && point.return_value
      end
      interrupts = 0
      begin
        loaded.enable { Plock::Store::Database.new(ActiveRecord::Base) }
        puts interrupts.positive?
      rescue Interrupt
        (interrupts += 1) < 100 and retry
      end
    RUBY
    expect(output).to eq("true\n")
  end

  it "refuses what it cannot use" do
    expect { described_class.new("a model") }.to raise_error(ArgumentError, /Active Record class/)
    expect { described_class.new(Support::Databases.model(:sqlite), patience: 1) }.to raise_error(
      ArgumentError, /patience/
    )
    expect { described_class.new(Support::Databases.model(:sqlite), pool_size: 0) }.to raise_error(
      Plock::ConfigurationError, /pool_size/
    )
    memory = Support::Databases.connect("InMemory", { adapter: "sqlite3", database: ":memory:" })
    expect { described_class.new(memory) }.to raise_error(Plock::UnsupportedError, /memory/)
  end
end
