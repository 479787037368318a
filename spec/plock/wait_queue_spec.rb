# frozen_string_literal: true

require "spec_helper"
require "support/scripts"

# The queue when its records are wrong: it has many records of dead processes, or it lacks the
# records of waiters.
RSpec.describe "The wait queue" do
  let(:server) { redis_server }
  let(:store) { open_store(server.url, **Support::Examples::PATIENT) }
  let(:key) { unique_key }
  let(:lock) { Plock.store_key("plock:v1:", key) }
  let(:scripts) { Support::Scripts.new(server.client, lock) }
  let(:queue) { scripts.queue }

  # Many more records than one call of a script examines.
  many = 5_000

  # Adds records of dead processes in front of all others. share: for a lock with several holders,
  # the prefix of the records, for example "r ".
  def ghosts(count, lock: self.lock, share: nil)
    queue = "plock:1:{#{lock}}:queue"
    Array
      .new(count) do |n|
        [1_600_000_000_000_000 + n, "#{share}host 1 1 #{format("%016x", n)} - #{SecureRandom.uuid}"]
      end
      .each_slice(1_000) { |slice| server.call("ZADD", queue, *slice.flatten) }
    server.call("PEXPIRE", queue, 600_000)
  end

  def length(lock = self.lock) = server.call("ZCARD", "plock:1:{#{lock}}:queue")

  def contender(**options) =
    discard(Support::Contender.new(scripts, **options).listen(server), :close)

  # Returns how many commands the server executes during the block, including those in scripts.
  def commands
    server.call("CONFIG", "RESETSTAT")
    yield
    server.call("INFO", "commandstats").scan(/:calls=(\d+)/).sum { |(calls)| Integer(calls, 10) }
  end

  def acquiring = ->(from, &served) { from.acquire(key, ttl: 60, wait: 60, &served) }

  # Starts threads that wait. Each is in the queue before the next one starts. `told` receives their
  # numbers in the order in which they acquire the lock.
  def line_up(count, told, way, at: queue)
    before = server.call("ZCARD", at)
    Array.new(count) do |number|
      waiter = background { way.call(store) { told << number } }
      eventually(20, "a waiter is not in line") { server.call("ZCARD", at) == before + number + 1 }
      waiter
    end
  end

  describe "distinguishes values with the same ending:" do
    let(:ending) { SecureRandom.uuid.sub(/.\z/, "5") }

    it "an owner called 5 does not go before a waiter whose token ends in 5" do
      waiter = contender(value: ending)
      server.call("ZADD", queue, 1_700_000_000_000_000, waiter.record)
      expect(store.lock_acquire(lock, "5", 10)).to be false
      expect(waiter.hears).to eq "="
      expect(waiter.queue).to be true
    end

    it "nor does it count as a waiter that announces its release" do
      other = contender(value: "job 5")
      server.call("SET", scripts.companion, "1700000000000000 1700000000:0 #{other.record}")
      server.call("SET", lock, "5", "PX", 60_000)
      answer = scripts.call("acquire", ending, 1_000, contender.signature, 1_000, "0", "0")
      expect(answer[4]).to eq 0
    end

    it "the owner job 5 is not told that the lock of 5 is broken" do
      other = contender(value: "job 5")
      server.call("SET", scripts.companion, "1700000000000000 1700000000:0 #{other.record}")
      server.call("SET", lock, "5", "PX", 60_000)
      expect(store.break(key)).to be_truthy
      expect(other.hears(within: 0.2)).to be_nil
    end

    it "an owner with blanks in its name is told that its lock is broken" do
      owner = contender(value: "job 5")
      expect(owner.ask).to be true
      expect(store.break(key)).to be_truthy
      expect(owner.hears).to eq "!5" # the length of the value in bytes
    end

    it "an undo takes back its own acquire, not one whose record has the same ending" do
      owner = contender
      expect(owner.ask).to be true
      expect(owner.undo(owner.signature.delete_prefix("ho"))).to eq 0
      expect(owner.undo).to eq 1
    end
  end

  describe "of dead processes" do
    it "is passed over in parts, each of bounded work" do
      calls = {
        "acquire" => ->(one) { one.ask }, "acquire, with a place" => ->(one) { one.queue },
        "release" => ->(one) { one.release }, "leave" => ->(one) { one.leave },
        "undo" => ->(one) { one.undo }, "break" => ->(_) { scripts.call("break") }
      }
      calls.each do |name, call|
        server.call("DEL", lock, scripts.companion, queue)
        one = contender
        expect(one.ask).to be true unless name.start_with?("acquire")
        # sets the key to this waiter's baton, as if its turn had come
        server.call("SET", lock, one.value.tr("-", ":"), "PX", 60_000) if name == "leave"
        ghosts(many)
        answer = nil
        expect([name, commands { answer = call.call(one) }]).to match [name, be < 400]
        # both answers mean that the caller must ask again
        expect([name, answer]).to eq [name, name.start_with?("acquire") ? 0 : 3]
        expect([name, length]).to match [name, be < many]
      end
    end

    it "does not keep a break from freeing the key" do
      expect(contender.ask).to be true
      ghosts(many)
      expect(store.break(store.status(key))).to be true
      expect([server.call("EXISTS", lock), length]).to eq [0, 0]
    end

    it "is passed over in parts, each of bounded work, by locks with several holders" do
      shared = "#{lock}#{Plock::Locking::Kind::READ_WRITE.suffix}"
      scripts = Support::Scripts.new(server.client, shared)
      calls = { ask: 0, queue: 0, release: 1, leave: 0, downgrade: 1 }
      calls.each do |name, expected|
        server.call("DEL", scripts.lock, scripts.companion, scripts.queue)
        one = discard(Support::Sharer.new(scripts, "w").listen(server), :close)
        expect(one.ask).to be true unless %i[ask queue].include?(name)
        ghosts(many, lock: shared, share: name == :downgrade ? "r " : "w ")
        answer = nil
        expect([name, commands { answer = one.public_send(name) }]).to match [name, be < 400]
        expect([name, answer]).to eq [name, expected]
        # a leave passes over no records while the lock has a holder
        expect([name, length(shared)]).to match [name, be < many] unless name == :leave
      end
    end

    it "costs a waiter that leaves no more than a short queue does" do
      server.call("SET", lock, "somebody", "PX", 60_000)
      leaving, *others = Array.new(3) { contender.tap(&:queue) }
      ghosts(many)
      server.call("ZADD", queue, 1_500_000_000_000_000, leaving.record)
      expect(commands { leaving.leave }).to be < 400
      expect(others.size).to eq 2
    end

    it "is passed over by try_acquire", :alone do
      ghosts(many)
      expect(store.try_acquire(key) { :entered }).to be :entered
      expect(length).to eq 0
    end

    it "does not keep try_acquire_all out, nor acquire_all", :alone do
      keys = Array.new(3) { |n| "#{key}:#{n}" }
      %i[try_acquire_all acquire_all].each do |way|
        keys.each { |name| ghosts(many / 5, lock: Plock.store_key("plock:v1:", name)) }
        expect(store.public_send(way, keys, wait: 0) { :entered }).to be :entered
      end
    end

    it "does not keep out semaphores, read-write locks, once or Monitor", :alone do
      ways = {
        ":semaphore" => ["s2 ", -> { store.semaphore(key, permits: 2).try_acquire { :entered } }],
        ":read_write" => ["w ", -> { store.read_write_lock(key).try_read { :entered } }],
        ":once" => [nil, -> { store.once(key, within: 60) { :entered }.value }],
        "" => [
          nil,
          -> do
            Plock::Monitor
              .new(key, store: store)
              .then { |monitor| monitor.try_enter && (monitor.exit || :entered) }
          end
        ]
      }
      ways.each do |kind, (share, way)|
        suffix =
          Plock::Locking::Kind::ALL
            .map(&:suffix)
            .find { |other| other.delete("-_") == kind.delete("-_") }
        ghosts(many / 5, lock: "#{lock}#{suffix}", share: share)
        expect([kind, way.call]).to eq [kind, :entered]
      end
    end

    it "is passed over at a release: the first living waiter behind it is next", :timing do
      lease = store.acquire(key, ttl: 60)
      ghosts(many)
      told = Thread::Queue.new
      line = line_up(3, told, acquiring)
      start = monotonic
      lease.release
      line.each { |waiter| waiter.join(60) }
      expect(monotonic - start).to be < 2
      expect(Array.new(told.size) { told.pop }).to eq [0, 1, 2]
      expect(length).to eq 0
    end

    it "does not hide a living waiter from try_acquire_all: it is that waiter's turn", :alone do
      waiter = contender
      server.call("SET", lock, "somebody", "PX", 60_000)
      waiter.queue
      ghosts(many)
      server.call("DEL", lock)
      expect(store.try_acquire_all([key, "#{key}:2"])).to be_nil
      expect(waiter.hears).to eq "="
      expect(waiter.queue).to be true
    end
  end

  describe "forgets waiters that give up" do
    let(:hasty) { open_store(server.url, release_timeout: 0.001) }

    it "together, even if the server is away for longer than a release may take" do
      lease = store.acquire(key, ttl: 60)
      waiters = Array.new(100) { background { hasty.acquire(key, wait: 60) } }
      eventually(30, "not all are in line") { length == 100 }
      server.stop_process
      waiters.each { |waiter| expect { waiter.value }.to raise_error(Plock::UnavailableError) }
      server.continue_process
      eventually(10, "records stay") { length.zero? }
      expect(lease.release).to be true
    end
  end

  describe "that is lost" do
    def served_in(seconds)
      start = monotonic
      yield
      expect(monotonic - start).to be < seconds
    end

    { "by FLUSHALL" => %w[FLUSHALL], "by being evicted" => nil }.each do |how, command|
      it "#{how} is rebuilt by the waiters, in their order", :timing do
        lease = store.acquire(key, ttl: 60)
        told = Thread::Queue.new
        line = line_up(20, told, acquiring)
        server.call(*(command || ["DEL", queue]))
        lease.release unless command # FLUSHALL frees the key without telling the waiters
        served_in(6) { expect(line.map { |waiter| waiter.join(60) }).to all be_a(Thread) }
        expect(Array.new(told.size) { told.pop }).to eq [*0...20]
        warnings { lease.release } if command
      end
    end

    it "is rebuilt while the holder goes on, and is in order again when it releases", :timing do
      lease = store.acquire(key, ttl: 60)
      told = Thread::Queue.new
      line = line_up(20, told, acquiring)
      server.call("DEL", queue)
      eventually(10, "they do not come back") { length == 20 }
      served_in(2) do
        lease.release
        line.each { |waiter| waiter.join(60) }
      end
      expect(Array.new(told.size) { told.pop }).to eq [*0...20]
    end

    it "is rebuilt for locks with several holders" do
      ways = {
        semaphore: ->(from, &served) do
          from.semaphore(key, permits: 1).acquire(ttl: 60, wait: 60, &served)
        end,
        read_write: ->(from, &served) do
          from.read_write_lock(key).write(ttl: 60, wait: 60, &served)
        end
      }
      ways.each do |kind, way|
        suffix = Plock::Locking::Kind::ALL.find { |other| other.name == kind }.suffix
        at = "plock:1:{#{lock}#{suffix}}:queue"
        go = Thread::Queue.new
        holder = background { way.call(store) { go.pop } }
        eventually(15) do
          server.call("EXISTS", at.delete_prefix("plock:1:{").delete_suffix("}:queue")) == 1
        end
        told = Thread::Queue.new
        line = line_up(10, told, way, at: at)
        server.call("DEL", at)
        eventually(10, "they do not come back") { server.call("ZCARD", at) == 10 }
        go << :on
        [holder, *line].each { |thread| thread.join(60) }
        expect([kind, Array.new(told.size) { told.pop }]).to eq [kind, [*0...10]]
      end
    end

    it "is rebuilt by processes that have one waiter each", :many_children, :timing do
      [server, key]
      lease = store.acquire(key, ttl: 60)
      waiters = Array.new(6) do |number|
        child { Plock::Store.open(server.url).acquire(key, ttl: 60, wait: 30) { :served } }.tap do
          eventually(15) { length == number + 1 }
        end
      end
      server.call("FLUSHALL")
      served_in(6) { expect(waiters.map(&:result)).to eq [:served] * 6 }
      warnings { lease.release }
    end
  end

  it "is read once a second by each process, however many of its threads wait" do
    store.acquire(key, ttl: 60) do
      line_up(20, Thread::Queue.new, acquiring)
      server.call("CONFIG", "RESETSTAT")
      calls = -> { server.call("INFO", "commandstats")[/cmdstat_evalsha:calls=(\d+)/, 1].to_i }
      seconds = elapsed { eventually(30, "it is not read") { calls.call >= 4 } }
      expect(calls.call).to be <= seconds + 2
    end
  end
end
