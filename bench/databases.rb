# frozen_string_literal: true

# Compares the stores on databases and memcached, the drop-ins for databases, and
# with_advisory_lock if it is installed. Measures pairs of acquire and release per second, and the
# SQL statements of a pair. Also measures the time from one process's release to another process's
# entry (p50), and the CPU time that a waiter uses in 5 s. Then compares with_transactional_lock
# with the bare SQL on the same connection, in alternate rounds.
#
#   ruby bench/databases.rb [NAME…]
#
# The servers are private, and their data is in temporary folders. fsync is off, because the
# benchmark would otherwise measure a disk.

%w[../lib ../spec].each { |folder| $LOAD_PATH.unshift(File.expand_path(folder, __dir__)) }

require "plock/compat/locker"
require "plock/compat/with_transactional_lock"
require "plock/store/advisory"
require "plock/store/database"
require "plock/store/memcached"
require "support/databases"
require "support/lockers"
require "support/memcached"
require "support/transactional_locks"

begin
  require "with_advisory_lock"
rescue LoadError
  warn "with_advisory_lock is not installed: left out"
end

ActiveRecord::Base.logger = nil

module DatabaseBench
  PAIRS_S = 2.0
  HANDOFFS = 200
  WAIT_S = 5.0
  ROUNDS = 301
  ROUND = 40 # transactions in a round

  # make: a callable that returns a process's store or model. run: a callable that receives this
  # store or model, the key, the seconds to wait, and a block that it runs while it holds the key.
  Contestant = Struct.new(:name, :make, :run)

  module_function

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def contestants
    models = Support::Databases
    stores =
      models::NAMES.map do |name|
        [name.to_s, -> { Plock::Store::Database.new(models.model(name)) }]
      end
    stores << ["advisory postgresql", -> { Plock::Store::Advisory.new(models.model(:postgresql)) }]
    stores << ["advisory mysql2", -> { Plock::Store::Advisory.new(models.model(:mysql2)) }]
    stores << ["memcached", -> { Plock::Store::Memcached.new(Support::Memcached.shared.address) }]
    ours =
      stores.map do |name, make|
        Contestant.new(
          name, make, ->(store, key, wait, &block) { store.acquire(key, wait: wait, &block) }
        )
      end
    ours + lockers + others
  end

  def lockers
    models = %i[postgresql mysql2].map do |name|
      Contestant.new(
        "Locker #{name}",
        -> { Support::Lockers.model(name) },
        ->(model, key, wait, &block) do
          valued(block) do |inner|
            bounded(wait) { Locker.run(key, blocking: true, model: model, &inner) }
          end
        end
      )
    end
    models << Contestant.new(
      "Locker::Advisory postgresql",
      -> { ActiveRecord::Base.establish_connection(Support::Postgres.shared.config) },
      ->(_, key, wait, &block) do
        valued(block) do |inner|
          Locker::Advisory.run(key, blocking: true, block_timeout: wait, &inner)
        end
      end
    )
  end

  # Returns the block's value, for an API that returns only whether the block has run.
  def valued(block)
    value = nil
    yield -> (*) { value = block.call }
    value
  end

  # Locker itself waits forever. So if the caller wants a short wait, Timeout ends it.
  def bounded(seconds, &block)
    seconds > 10 ? block.call : Timeout.timeout(seconds, &block)
  end

  def others
    return [] unless defined?(WithAdvisoryLock)

    %i[postgresql mysql2].map do |name|
      Contestant.new(
        "with_advisory_lock #{name}",
        -> { Support::Databases.model(name).tap { |m| m.include(WithAdvisoryLock::Concern) } },
        ->(model, key, wait, &block) do
          model.with_advisory_lock!(key, timeout_seconds: wait, &block)
        end
      )
    end
  end

  def pairs(contestant)
    store = contestant.make.call
    20.times { contestant.run.call(store, "pairs", 60) { nil } }
    count = 0
    started = now
    while now < started + PAIRS_S
      contestant.run.call(store, "pairs", 60) { count += 1 }
    end
    count / (now - started)
  end

  def statements(contestant)
    store = contestant.make.call
    contestant.run.call(store, "statements", 60) { nil }
    sent = 0
    counting = ->(*, payload) { sent += 1 unless payload[:name] == "SCHEMA" }
    ActiveSupport::Notifications.subscribed(counting, "sql.active_record") do
      contestant.run.call(store, "statements", 60) { nil }
    end
    sent
  end

  # Returns the median of the seconds from one process's release to the other's entry. The two
  # processes take turns, and each records when it enters and when it is about to release.
  def handoff(contestant)
    contestant.make.call # makes the shared state before the fork
    pids = []
    readers = Array.new(2) do
      reader, writer = IO.pipe
      pids << fork do
        store = contestant.make.call
        moments = Array.new(HANDOFFS / 2) do
          contestant.run.call(store, "handoff", 60) do
            came = now
            sleep 0.02 # long enough for the other process to begin its wait
            [came, now, Process.pid]
          end.tap { sleep 0.005 } # so that the other process gets its turn
        end
        writer.write(Marshal.dump(moments))
        exit!(0)
      end
      writer.close
      reader
    end
    moments = readers.flat_map { |reader| Marshal.load(reader) }.sort
    pids.each { |pid| Process.wait(pid) }
    gaps =
      moments
        .each_cons(2)
        .filter_map { |(_, left, from), (came, _, to)| came - left if from != to }
        .sort
    gaps[gaps.size / 2]
  end

  def give_up(contestant, store, seconds)
    contestant.run.call(store, "cpu", seconds) { nil }
  rescue StandardError # each contestant raises its own error for a timeout
    nil
  end

  def waiting_cpu(contestant)
    holder = contestant.make.call
    inside, leave = Queue.new, Queue.new
    thread = Thread.new { contestant.run.call(holder, "cpu", 60) { (inside << true) && leave.pop } }
    inside.pop
    reader, writer = IO.pipe
    pid = fork do
      store = contestant.make.call
      give_up(contestant, store, 0.2) # opens the connections before the measurement
      before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      give_up(contestant, store, WAIT_S)
      writer.write(Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before)
      exit!(0)
    end
    writer.close
    Process.wait(pid)
    Float(reader.read)
  ensure
    leave << true
    thread.join
  end

  BARE = {
    postgresql: ->(id) { "SELECT pg_advisory_xact_lock(#{id})" },
    mysql2: ->(id) {
      "INSERT INTO transactional_advisory_locks (lock_id) VALUES (#{id}) " \
        "ON DUPLICATE KEY UPDATE lock_id = lock_id"
    }
  }.freeze

  # Returns three values. The first two are the transactions per second of the bare SQL and of
  # with_transactional_lock, each from its median round. The third is the median ratio of their
  # times. Each ratio compares two adjacent rounds, so that other load on the machine affects both.
  def transactional(name)
    model = Support::TransactionalLocks.model(name)
    connection = model.lease_connection
    sql = BARE.fetch(name).call(WithTransactionalLock::Request.of("bench", nil, false).id)
    bare = proc { model.transaction { connection.execute(sql) } }
    ours = proc { model.with_transactional_lock("bench") { nil } }
    [bare, ours].each { |way| 200.times(&way) }
    times = Array.new(ROUNDS) do |number|
      pair = [bare, ours].rotate(number).map { |way| timed { ROUND.times(&way) } }
      pair.rotate(number)
    end
    times.transpose.map { |rounds| ROUND / median(rounds) } << median(
      times.map { |short, long| long / short }
    )
  end

  def median(values) = values.sort[values.size / 2]

  def timed
    started = now
    yield
    now - started
  end

  def report_transactional(name)
    bare, ours, ratio = transactional(name)
    puts format("%-32s %10.0f %10.0f %+9.1f %%", name, bare, ours, (ratio - 1) * 100)
  end

  def run(names)
    puts format(
      "%-32s %10s %10s %14s %14s",
           "",
           "pairs/s",
           "statements",
           "hand-off ms",
           "CPU in 5 s, ms"
    )
    contestants.each do |contestant|
      next if names.any? && names.none? { |name| contestant.name.include?(name) }

      # The waiter is a fork of this process, and spends CPU time on copying the pages that it
      # writes to. So it is measured first, while this process is small.
      cpu = waiting_cpu(contestant)
      puts format(
        "%-32s %10.0f %10d %14.2f %14.1f",
             contestant.name,
             pairs(contestant),
             statements(contestant),
             handoff(contestant) * 1000,
             cpu * 1000
      )
      $stdout.flush
    end
    puts format(
      "\n%-32s %10s %10s %11s",
           "with_transactional_lock",
           "bare SQL/s",
           "ours/s",
           "longer"
    )
    BARE.each_key do |name|
      if names.empty? ||
         names.any? { |wanted| name.to_s.include?(wanted) || wanted == "transactional" }
        report_transactional(name)
      end
    end
  ensure
    Support::Supervisor.stop
  end
end

DatabaseBench.run(ARGV)
