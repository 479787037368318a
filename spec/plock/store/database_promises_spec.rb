# frozen_string_literal: true

require "spec_helper"
require "support/database_examples"

RSpec.describe Plock::Store::Database, "as it is promised" do
  include Support::DatabaseExamples

  let!(:key) { "promise:#{SecureRandom.hex(8)}" }

  Support::DatabaseExamples::ALL.each do |name, database|
    describe "on #{name}", needs: Support::Databases::PROGRAMS[database] do
      let!(:model) { Support::Databases.model(database) }
      let(:store) { database_store(model, **Support::Databases::PATIENT) }

      # Forks a process that waits for all of these keys, and kills it.
      def dead_waiters(keys)
        waiter = child do |parent|
          parent.tell(:asks)
          mine = database_store(model, **Support::Databases::PATIENT)
          threads = keys.map do |each|
            Thread.new { mine.acquire(each, ttl: 30, wait: 60) { nil } }
          end
          threads.each(&:join)
        end
        waiter.hear
        eventually(10) { keys.all? { |each| store.status(each).waiters.size == 1 } }
        end_child(waiter)
      end

      it "takes several keys at the first attempt once those who waited for them are gone" do
        keys = Array.new(5) { |number| "#{key}:#{number}" }
        store.acquire_all(keys, ttl: 30) { dead_waiters(keys) }
        eventually(10) do
          keys.all? { |each| store.status(each).then { |it| !it.held? && it.waiters.empty? } }
        end
        expect(store.try_acquire_all(keys, ttl: 30) { :entered }).to be(:entered)
      end

      # Runs in a child, because on some databases, fibers have crashed the process.
      it "fibers whose time ends leave a process that goes on, and free keys", :fibers, :timing do
        keys = Array.new(2) { |number| "#{key}:#{number}" }
        outcome = in_child do
          require "async"
          mine = Plock::Store::Database.new(model, pool_size: 2)
          stop = monotonic + 4
          work = -> do
            if rand < 0.8
              mine.acquire(keys.sample, ttl: 3, wait: 1) { sleep rand * 0.01 }
            else
              mine.acquire_all(keys, ttl: 3, wait: 1) { sleep rand * 0.01 }
            end
          end
          Sync do |task|
            fibers = Array.new(12) do
              task.async do |fiber|
                while monotonic < stop
                  begin
                    fiber.with_timeout(rand * 0.08, &work)
                  rescue Async::TimeoutError, Plock::Error
                    nil
                  end
                end
              end
            end
            fibers.each(&:wait)
          end
          keys.map { |name| mine.acquire(name, wait: 2) { :entered } }
        end
        expect(outcome).to eq(%i[entered entered])
      end

      # Makes the next release delete old keys. It does not stub the clock, because RSpec would
      # remove the stub while a background thread is inside it.
      def later
        store.instance_variable_get(:@site).instance_variable_set(:@prune_at, Plock::Clock.now)
      end

      # Waits up to 10 s until all rows of keys with this prefix are deleted. Returns how many are
      # left.
      def rows_left(prefix)
        sql = "SELECT count(*) FROM plock_leases WHERE name LIKE '#{prefix}%'"
        200.times do
          break if model.lease_connection.select_value(sql).zero?

          sleep 0.05
        end
        model.lease_connection.select_value(sql)
      end

      two_days = 2 * 86_400 * 1_000_000

      it "forgets thousands of keys that have been free for a day as soon as it forgets any" do
        then_at = (Process.clock_gettime(Process::CLOCK_REALTIME) * 1_000_000).to_i - two_days
        rows = Array.new(2_500) { |number| "('old:#{key}:#{number}', #{then_at})" }
        insert = "INSERT INTO plock_leases (name, acquired_at) VALUES #{rows.join(", ")}"
        model.lease_connection.execute(insert)
        store.acquire(key) { nil }
        later
        store.acquire(key) { nil }
        expect(rows_left("old:")).to be_zero
      ensure
        model.lease_connection.execute("DELETE FROM plock_leases WHERE name LIKE 'old:%'")
      end

      it "forgets a key whose waiters died, a day later" do
        lease = store.acquire(key, ttl: 30)
        dead_waiters([key])
        lease.release
        earlier = "acquired_at = acquired_at - #{two_days}"
        ["UPDATE plock_leases SET #{earlier} WHERE acquired_at < #{2**62}",
         "UPDATE plock_claims SET #{earlier}, expires_at = expires_at - #{two_days}"]
          .each { |sql| model.lease_connection.execute(sql) }
        later
        3.times { |number| store.acquire("#{key}:#{number}") { nil } }
        expect(rows_left(lease.store_key)).to be_zero
      end

      describe "and subscribers that fail" do
        around { |example| warnings { example.run } }

        script_errors = { "a LoadError" => LoadError,
                          "a NotImplementedError" => NotImplementedError }

        { **script_errors, "a RuntimeError" => RuntimeError }.each do |what, error|
          it "acquires and releases though a subscriber to sql.active_record raises #{what}" do
            store.acquire(key) { nil }
            told = 0
            failing = ->(*, payload) do
              payload[:name] == "Plock" && (told += 1) && raise(error, "from a subscriber")
            end
            value = ActiveSupport::Notifications.subscribed(failing, "sql.active_record") do
              store.acquire(key, ttl: 30, wait: 1) { :entered }
            end
            expect([value, told, store.status(key).held?]).to match([:entered, be > 0, false])
          end
        end

        script_errors.each do |what, error|
          it "acquires and releases though a subscriber to plock's events raises #{what}" do
            subscription = Plock.subscribe { raise error, "from a subscriber" }
            expect(store.acquire(key, ttl: 30) { :entered }).to be(:entered)
            expect(store.status(key)).not_to be_held
          ensure
            Plock.unsubscribe(subscription)
          end

          it "returns the block's value though the logger raises #{what}" do
            logger = Class.new { define_method(:warn) { |*| raise error, "from a logger" } }.new
            logging = database_store(model, logger: logger)
            value = logging.acquire(key, ttl: 30) { logging.break(key) && :entered }
            expect(value).to be(:entered)
          end
        end
      end
    end
  end

  # All processes of the server are stopped. So open connections get no answer, and neither do new
  # ones.
  describe "whose server stands still", needs: Support::Postgres::PROGRAMS do
    let(:server) { discard(Support::Postgres.new.start, :stop) }
    let(:name) { "still_#{SecureRandom.hex(4)}" }
    let(:model) do
      model_of(server.config(application_name: name)).tap do |made|
        Support::Databases.migrate(made)
        made.connection_pool.disconnect!
      end
    end
    let(:store) { database_store(model) }

    around { |example| warnings { example.run } }

    # Stops all processes of the server while the block runs.
    def standing_still
      children = File.read("/proc/#{server.pid}/task/#{server.pid}/children")
      pids = children.split.map { |pid| Integer(pid, 10) }
      everything = [server.pid, *pids]
      everything.each { |pid| Process.kill(:STOP, pid) }
      yield
    ensure
      everything&.each { |pid| Process.kill(:CONT, pid) }
    end

    # Starts a caller that waits in the queue, and stops the server. Yields the caller's thread, and
    # returns the block's value. The thread's value is the seconds that the call took, and its
    # outcome.
    def wait_through(patience)
      holder = store.acquire(key, ttl: 60)
      waiter = background do
        seconds = nil
        outcome = nil
        seconds = elapsed do
          outcome = seconds_or_error { store.acquire(key, wait: patience) { nil } }
        end
        [seconds, outcome]
      end
      eventually(5) { store.status(key).waiters.size == 1 }
      standing_still { yield waiter }
    ensure
      holder&.release
    end

    it "ends a wait when patience is over", :timing do
      seconds, outcome = wait_through(0.6, &:value)
      expect(outcome).to be_a(Plock::Error)
      expect(seconds).to be_between(0.55, 0.8)
    end

    it "ends a waiting caller at once when it is killed", :timing do
      seconds = wait_through(30) { |waiter| elapsed { await_sleep(waiter).kill.join } }
      expect(seconds).to be < 0.3
    end

    it "ends at once a caller that is killed while the server does not answer it", :timing do
      store.acquire(key) { nil }
      seconds = standing_still do
        caller = await_sleep(background { store.acquire(key, wait: 30) { nil } })
        sleep(0.1) # by now, the caller has sent its request
        elapsed { caller.kill.join }
      end
      expect(seconds).to be < 0.3
    end
  end
end
