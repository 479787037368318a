# frozen_string_literal: true

require "spec_helper"
require "json"
require "tmpdir"

# When a process becomes a daemon inside a block, the parent ends inside that block. The leases of
# its open blocks pass to the daemon.
RSpec.describe "Process.daemon inside a block" do
  let(:folder) do
    Dir.mktmpdir("plock-daemon-").tap { |path| discard(-> { FileUtils.remove_entry(path) }, :call) }
  end
  let(:key) { "daemon:#{SecureRandom.hex(8)}" }
  let(:store) { open_store(url) }

  # Runs a program that becomes a daemon. Returns the results that the daemon has written. The
  # daemon then waits in its block until the example lets it end.
  def in_daemon(program)
    output, status = ruby(<<~RUBY, url, key, folder)
      require "plock"
      require "json"
      URL, KEY, FOLDER = ARGV
      # After this first call, calls with a block can take the short way through C.
      STORE = Plock::Store.open(URL).tap { |store| store.status(KEY) }
      def tell(name, value)
        File.write("\#{FOLDER}/\#{name}.part", JSON.generate(value))
        File.rename("\#{FOLDER}/\#{name}.part", "\#{FOLDER}/\#{name}")
      end
      def wait_for_end = File.open("\#{FOLDER}/end", &:read)
      #{program}
      tell("after", Process.pid)
    RUBY
    expect(status).to be_success, output
    # long enough for a busy machine
    eventually(20) { File.exist?("#{folder}/inside") }
    JSON.parse(File.read("#{folder}/inside"))
  end

  def let_it_end
    File.open("#{folder}/end", "w", &:close)
    eventually { File.exist?("#{folder}/after") }
  end

  before { File.mkfifo("#{folder}/end") }

  # Waits until the daemon has written its last file, because the folder is removed after that.
  after do |example|
    daemon = File.exist?("#{folder}/inside") && !example.metadata[:killed]
    eventually(20) { File.exist?("#{folder}/after") } if daemon
  end

  {
    "on Redis" => -> { shared_redis.url },
    "in a local store" => -> { "local:#{folder}/locks" }
  }.each do |name, address|
    describe name do
      let(:url, &address)

      it "hands the lease over: the daemon holds it, with a greater fence, and releases it" do
        found = in_daemon(<<~RUBY)
          STORE.acquire(KEY, ttl: 60) do |lease|
            before = lease.fence
            Process.daemon(true, true)
            tell("inside", { valid: lease.check!.valid?, grown: lease.fence > before,
                             pid: Process.pid, ttl: lease.ttl })
            wait_for_end
          end
        RUBY
        expect(found).to include("valid" => true, "grown" => true, "ttl" => 60.0)
        expect(store.status(key)).to have_attributes(
          held?: true, holders: [have_attributes(pid: found.fetch("pid"))]
        )
        expect(store.try_acquire(key)).to be_nil
        let_it_end
        expect(store.status(key).held?).to be(false)
      end

      it "goes on renewing it" do
        in_daemon(<<~RUBY)
          STORE.acquire(KEY, ttl: 2, renew: true) do |lease|
            Process.daemon(true, true)
            first = lease.valid_until
            sleep 0.01 until lease.lost? || lease.valid_until > first + 2.5
            tell("inside", lease.lost?)
            wait_for_end
          end
        RUBY
        expect(JSON.parse(File.read("#{folder}/inside"))).to be(false)
        expect(store.status(key).held?).to be(true)
        let_it_end
      end

      # All times count from the acquire, even if the block becomes a daemon twice. If a daemon
      # began to count at its own start, these times would end too late.
      it "keeps counting from the acquire: at_least:, within:, max_hold:, held_for, the duration",
         :timing, :slow do
        found = in_daemon(<<~RUBY)
          told = []
          Plock.subscribe(:release) { |event| told << event.duration }
          times = %w[at_least once].to_h do |way|
            began = Plock::Clock.now
            held = nil
            block = lambda do |lease|
              2.times { sleep(0.4) && Process.daemon(true, true) }
              held = [lease.held_for, Plock::Clock.now - began]
            end
            if way == "once" then STORE.once(KEY + way, within: 1.6, &block)
            else STORE.acquire(KEY + way, at_least: 1.6, &block)
            end
            held.push(told.pop, Plock::Clock.now - began)
            free = lambda do
              if way == "once" then STORE.once(KEY + way, within: 0.01) { nil }.ran?
              else !STORE.status(KEY + way).held?
              end
            end
            sleep 0.002 until free.call
            [way, held << Plock::Clock.now - began]
          end
          STORE.acquire(KEY, ttl: 0.4, renew: true, max_hold: 1.0) do |lease|
            began = Plock::Clock.now
            2.times { sleep(0.4) && Process.daemon(true, true) }
            sleep 0.002 until lease.lost?
            times["max_hold"] = Plock::Clock.now - began
          end
          tell("inside", times)
        RUBY
        %w[at_least once].each do |way|
          held_for, held, duration, left, free = found.fetch(way)
          expect(held_for).to be_within(0.1).of(held)
          expect(duration).to be_between(held_for, left)
          expect(free).to be_between(1.59, 2.1)
        end
        expect(found.fetch("max_hold")).to be_between(1.0, 1.75)
      end

      # The parent's dispatcher hangs, so that no listener has been called when the parent ends.
      lost_before = <<~RUBY
        PARENT = Process.pid
        Plock::Dispatcher.surroundings = ->(&tell) { Process.pid == PARENT ? sleep : tell.call }
        $stderr.reopen("\#{FOLDER}/warnings", "w")
        def lose(*leases)
          sleep 0.002 until leases.none?(&:valid?)
          Process.daemon(true, true)
        end
      RUBY

      # The lease is broken after the parent has handed it over, and before the daemon takes it
      # over.
      lost_on_the_way = <<~RUBY
        $stderr.reopen("\#{FOLDER}/warnings", "w")
        def lose(*leases)
          leases.each do |lease|
            name = lease.key
            lease.define_singleton_method(:go_on) do |*rest|
              STORE.break(name) # unless it has expired already
              super(*rest)
            end
          end
          Process.daemon(true, true)
        end
      RUBY

      {
        "that expired before any listener was told" => lost_before,
        "that is lost on the way" => lost_on_the_way
      }.each do |which, losing|
        it "says of a lease #{which} that it is lost, and warns of it at the end" do
          found = in_daemon(losing + <<~RUBY)
            told = []
            %i[lost release].each do |name|
              Plock.subscribe(name) { |event| told << [name, event.details[:released]] }
            end
            found = nil
            STORE.acquire(KEY, ttl: 0.1) do |lease|
              lose(lease)
              message = (lease.check! rescue $!.message)
              found = [lease.lost?, lease.valid?, message, lease.inspect]
            end
            tell("inside", [found, told])
          RUBY
          expect(found).to match(
            [[true, false, /is lost/, /lost>/], [["lost", nil], ["release", false]]]
          )
          expect(File.read("#{folder}/warnings").lines).to match([/is lost before its block ended/])
        end

        it "ends the block of a lease #{which}, and would send its release in the background" do
          found = in_daemon(losing + <<~RUBY)
            inside = nil
            value = STORE.acquire(KEY, ttl: 0.1, release: :background) do |lease|
              lose(lease)
              inside = [lease.lost?, lease.hold.inspect.include?(lease.token), lease.hold.inspect]
              "the block's value"
            end
            tell("inside", [value, *inside])
          RUBY
          expect(found).to match(["the block's value", true, false, /LostHold key=.* fence=\d+ /])
          expect(File.read("#{folder}/warnings").lines).to match([/is lost before its block ended/])
        end

        it "calls on_lost: for a lease #{which}" do
          found = in_daemon(losing + <<~RUBY)
            called = Queue.new
            on_lost = ->(lease) { called << [Process.pid, lease.lost?] }
            STORE.acquire(KEY, ttl: 0.1, on_lost: on_lost) { |lease| lose(lease) }
            tell("inside", [called.pop == [Process.pid, true], called.size])
          RUBY
          expect(found).to eq([true, 0])
        end

        it "raises in the block of a lease #{which}" do
          found = in_daemon(losing + <<~RUBY)
            raised = begin
              STORE.acquire(KEY, ttl: 0.1, on_lost: :raise) { |lease| lose(lease) && sleep(1) }
            rescue Plock::LeaseLost
              $!.message
            end
            tell("inside", raised)
          RUBY
          expect(found).to match(/is lost/)
        end

        it "keeps the rest of acquire_all, and bars re-entry to a monitor, for a lease #{which}" do
          found = in_daemon(losing + <<~RUBY)
            monitor = Plock::Monitor.new(KEY + ":monitor", store: STORE, ttl: 0.1, renew: false)
            inside = nil
            STORE.acquire_all([KEY + ":1", KEY + ":2"], ttl: 60) do |first, second|
              first.extend(ttl: 0.1)
              monitor.synchronize do
                lose(first, Thread.current[:plock_monitors][monitor].lease)
                again = (monitor.synchronize { "entered" } rescue $!.message)
                inside = [first.lost?, second.valid?, monitor.mon_owned?, again]
              end
            end
            tell("inside", [inside, monitor.mon_owned?, STORE.status(KEY + ":2").held?])
          RUBY
          expect(found).to match([[true, true, true, /is lost/], false, false])
          expect(File.read("#{folder}/warnings").lines).to match(
            [/monitor.*is lost before/, /:1.*is lost before/]
          )
        end
      end

      it "hands over the leases of acquire_all, of an outer block, and of a monitor" do
        found = in_daemon(<<~RUBY)
          monitor = Plock::Monitor.new(KEY + ":monitor", store: STORE)
          STORE.acquire(KEY) do |outer|
            STORE.acquire_all([KEY + ":1", KEY + ":2"]) do |leases|
              monitor.synchronize do
                Process.daemon(true, true)
                tell("inside", [outer, *leases].map(&:valid?) << monitor.mon_owned?)
                wait_for_end
              end
            end
          end
        RUBY
        expect(found).to eq([true, true, true, true])
        keys = [key, "#{key}:1", "#{key}:2", "#{key}:monitor"]
        expect(keys.map { |name| store.status(name).held? }).to all(be(true))
        let_it_end
        expect(keys.map { |name| store.status(name).held? }).to all(be(false))
      end

      it "keeps the promises of at_least: and once, even if the daemon is killed", :killed do
        daemon = in_daemon(<<~RUBY)
          STORE.once(KEY, within: 60) do
            STORE.acquire_all([KEY + ":1", KEY + ":2"], at_least: 60) do
              STORE.acquire(KEY + ":lives", ttl: 1, renew: true) do
                Process.daemon(true, true)
                tell("inside", Process.pid)
                wait_for_end
              end
            end
          end
        RUBY
        expect(store.status("#{key}:lives").held?).to be(true)
        Process.kill(:KILL, daemon)
        store.acquire("#{key}:lives", wait: 20) { nil }
        expect(store.once(key, within: 60) { raise "entered" }).not_to be_ran
        expect(%w[1 2].map { |name| store.status("#{key}:#{name}").held? }).to eq([true, true])
      end
    end
  end

  describe "without a real daemon" do
    let(:url) { shared_redis.url }

    # Takes the place of Process, but does not fork.
    def process(&daemon) =
      Object.new.tap do |object|
        object.define_singleton_method(:daemon, &daemon) &&
          object.singleton_class.prepend(Plock::Daemon)
      end

    it "has the lease as before if the system cannot fork" do
      store.acquire(key, ttl: 60) do |lease|
        expect { process { |*| raise Errno::EAGAIN }.daemon }.to raise_error(Errno::EAGAIN)
        expect([lease.check!.valid?, store.status(key).held?]).to eq([true, true])
      end
      expect(store.status(key).held?).to be(false)
    end

    it "forks nothing if a lease cannot be handed over, and keeps the others" do
      store.acquire(key) do |outer|
        store.acquire("#{key}:2") do |lease|
          allow(outer.hold).to receive(:leave).and_raise(
            Plock::UnsupportedError.new("bound", code: :unsupported)
          )
          expect { process { |*| raise "forked" }.daemon }.to raise_error(
            Plock::UnsupportedError, "bound"
          )
          expect([outer.valid?, lease.valid?]).to eq([true, true])
        end
      end
    end

    def fail_to_go_on(lease)
      lease.define_singleton_method(:go_on) do |*|
        raise Plock::UnavailableError.new("away", code: :connect)
      end
    end

    it "goes on with the other leases if a store cannot be reached, and then says so" do
      [0, 1].each do |failing|
        store.acquire("#{key}:#{failing}") do |outer|
          store.acquire("#{key}:#{failing}:2") do |inner|
            fail_to_go_on([outer, inner][failing])
            expect { process { |*| nil }.daemon }.to raise_error(Plock::UnavailableError, "away")
            expect([outer.valid?, inner.valid?]).to eq([failing == 1, failing.zero?])
          end
        end
      end
    end

    it "releases in the background the leases that it could not go on with" do
      failures = 3
      store.define_singleton_method(:adopt_hold) do |*arguments, **options, &given|
        if (failures -= 1).negative?
          super(*arguments, **options, &given)
        else
          raise(Plock::UnavailableError.new("away", code: :connect))
        end
      end
      store.acquire(key, ttl: 60) do |lease|
        expect { process { |*| nil }.daemon }.to raise_error(Plock::UnavailableError, "away")
        expect(lease.valid?).to be(false)
      end
      eventually { !store.status(key).held? }
    end

    it "still says why the system could not fork" do
      store.acquire(key) do |lease|
        fail_to_go_on(lease)
        expect { process { |*| raise Errno::EAGAIN }.daemon }.to raise_error(Errno::EAGAIN)
      end
    end

    it "reports as lost a lease that was broken meanwhile" do
      heard = warnings do
        store.acquire(key) do |lease|
          process { |*| nil }.daemon
          expect(lease.valid?).to be(true)
          other = store
          name = key
          process { |*| other.break(name) }.daemon
          expect([lease.valid?, lease.lost?]).to eq([false, true])
        end
      end
      expect(heard).to match([/lost before its block ended/])
    end

    # These examples test only that Process.daemon waits. spec/core/test_worker.c tests how long.
    [false, true].each do |inside|
      place = inside ? "inside a block" : "outside of all blocks"

      it "waits for releases in the background before the parent ends, #{place}" do
        order = []
        parent_ends = process { |*| order << :fork }
        calls =
          TracePoint.new(:c_call) { |call| order << call.method_id if call.method_id == :settle }
        leave = -> { calls.enable { parent_ends.daemon } }
        inside ? store.acquire(key) { leave.call } : leave.call
        expect(order).to eq(%i[settle fork])
      end
    end

    it "releases at the end a lease that another thread began to release during the hand-over" do
      store.acquire(key, ttl: 60) do |lease|
        other = nil
        allow(lease.hold).to receive(:leave).and_wrap_original do |leave|
          other = background { lease.release }
          eventually { other.stop? }
          leave.call
        end
        process { |*| other.join }.daemon
        expect([other.value, lease.valid?]).to eq([false, true])
      end
      expect(store.status(key).held?).to be(false)
    end

    it "leaves alone leases that are over and leases of other threads" do
      lease = store.acquire(key)
      background { store.acquire("#{key}:2") { Thread.stop } }
      eventually { store.status("#{key}:2").held? }
      fences = -> { [key, "#{key}:2"].map { |name| store.status(name).fence } }
      before = fences.call
      process { |*| nil }.daemon
      expect(fences.call).to eq(before)
      lease.release
    end
  end
end
