# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "fork" do
  include Support::Failures

  let(:server) { redis_server }
  let(:store) { warm(open_store(server.url)) }
  let(:key) { unique_key }

  describe "inside the block" do
    it "leaves the lock with the parent: a child that leaves the block releases nothing" do
      store.hold(key, Support::Failures::TTL_MS, 1.0, nil) do |lease|
        pid = Process.fork do
          # Leaves the hold by a throw, like a child that forgets to exit.
          throw :unwound
        rescue UncaughtThrowError
          exit!(held?(key, server) ? 0 : 1)
        end
        Process.wait(pid)
        expect(server.call("GET", key)).to eq(lease.token)
      end
      expect(held?(key, server)).to be(false)
    end

    it "the child runs on out of the block, and the lock stays with the parent" do
      reader, writer = IO.pipe
      parent = Process.pid
      store.hold(key, Support::Failures::TTL_MS, 1.0, nil) do
        pid = Process.fork
        if pid
          Process.wait(pid)
          expect(reader.readpartial(64)).to eq("left")
          expect(held?(key, server)).to be(true)
        end
      end
      if Process.pid != parent # the child has left the hold
        writer.write(held?(key, server) ? "left" : "released")
        exit!(0)
      end
      expect(held?(key, server)).to be(false)
    ensure
      exit!(1) if Process.pid != parent
      [reader, writer].each(&:close)
    end

    it "the child's lease is not valid, the parent's is" do
      store.hold(key, Support::Failures::TTL_MS, 1.0, nil) do |lease|
        expect(in_child { lease.valid? }).to be(false)
        expect(lease).to be_valid
      end
    end

    it "the child is excluded like any other process, and acquires the lock after the parent" do
      waiting = store.hold(key, Support::Failures::TTL_MS, 1.0, nil) do
        child do |parent|
          parent.tell(hold_failure(store, key, wait: 0.05).class.name)
          store.hold(key, Support::Failures::TTL_MS, 10, nil) { :entered }
        end.tap { |waiter| expect(waiter.hear).to eq("Plock::TimeoutError") }
      end
      expect(waiting.result).to eq(:entered)
    end
  end

  describe "beside a store in use" do
    it "parent and child go on, each with connections of its own" do
      store
      other =
        child { Array.new(300) { store.hold(unique_key, 3_000, 5, nil) { |lease| lease.token } } }
      tokens = Array.new(300) { store.hold(unique_key, 3_000, 5, nil) { |lease| lease.token } }
      expect((other.result + tokens).uniq.size).to eq(600)
    end

    it "the child holds no descriptor of the parent's connections" do
      store
      inherited = Support::Inventory.connections
      expect(server.connections).to be_positive
      expect(
        in_child { Support::Inventory.connections & connections_to(server, inherited) }
      ).to be_empty
    end

    it "a connection ends when the parent closes it, though the child lives" do
      store
      other = child { |parent| parent.tell(:there) && parent.hear }
      other.hear
      store.close
      eventually { server.connections.zero? }
      other.tell(:done)
      other.result
    end

    it "the parent's connection survives the child's end" do
      store
      in_child { store.close }
      in_child { warm(store) && nil }
      before = server.call("INFO", "stats")[/total_connections_received:(\d+)/, 1]
      expect_service(store, server)
      expect(server.call("INFO", "stats")[/total_connections_received:(\d+)/, 1]).to eq(before)
    end

    it "tokens of parent and child differ" do
      Plock.token
      expect(in_child { Array.new(50) { Plock.token } } & Array.new(50) { Plock.token }).to be_empty
    end

    it "works in the child of a child" do
      store
      url = server.url
      expect(
        in_child do
          in_child do
            [store, open_store(url)].map { |s| s.hold(unique_key, 3_000, 5, nil) { :entered } }
          end
        end
      ).to eq(%i[entered entered])
    end

    it "works while other threads hold, wait and release", :many_children do
      store
      key
      stop = false
      busy = Array.new(4) { background { warm(store) until stop } }
      waiting = background { store.hold(key, 3_000, 0.05, ->(*) {}) { nil } until stop }
      entered = Array.new(25) { in_child { store.hold(unique_key, 3_000, 5, nil) { :entered } } }
      stop = true
      [*busy, waiting].each(&:join)
      expect(entered.uniq).to eq([:entered])
    end

    it "the parent undoes a lost reply in the background, and the child works" do
      gate = proxy(server)
      store = warm(open_store(gate.url))
      gate.hold(:reply)
      attempt_failure(store, key)
      gate.forget
      other = child { |parent| parent.hear && store.hold(unique_key, 3_000, 5, nil) { :entered } }
      gate.clear
      other.tell(:go)
      expect(other.result).to eq(:entered)
      expect_no_orphan(key, server)
    end
  end

  # The sockets that are connected to the server. The kernel's table shows each socket's peer port.
  def connections_to(server, sockets)
    there = format(":%04X", server.port)
    inodes =
      File
        .readlines("/proc/net/tcp")
        .map(&:split)
        .select { |row| row[2].end_with?(there) }
        .map { |row| row[9] }
    sockets.select { |socket| inodes.include?(socket[/\d+/]) }
  end

  it "and exec: a program that is started inherits no descriptor of ours" do
    skip "/proc not mounted" unless Support::Inventory.available?
    store
    ours = connections_to(server, Support::Inventory.connections)
    expect(ours).not_to be_empty
    listing = IO.popen(["ls", "-l", "/proc/self/fd"], close_others: false, &:read)
    expect(ours.select { |socket| listing.include?(socket) }).to be_empty
  end

  # Long timeouts, because a busy machine must not cause an error: a daemon's errors are lost.
  let(:patient_url) { server.url("attempt_timeout=5&connect_timeout=5") }

  it "in Process.daemon, which bypasses Process._fork: the daemon has none of our sockets" do
    output, status = ruby(<<~RUBY, patient_url, key)
      require "plock"
      url, key = ARGV
      store = Plock::Store.open(url)
      store.hold(key + "before", 30_000, 1.0, nil) { }
      sockets = lambda do
        names = Dir.children("/proc/self/fd")
        names.filter_map { |fd| File.readlink("/proc/self/fd/" + fd) rescue nil }.grep(/socket/)
      end
      ours = sockets.call
      abort "not warm" if ours.empty?
      Process.daemon(true, true)
      left = ours & sockets.call
      fresh = Plock::Store.open(url)
      fresh.lock_acquire(key + ":daemon", left.empty? ? "clean" : left.inspect, 30)
      value = store.hold(key, 30_000, 1.0, nil) { |lease| lease.valid? ? "held" : "not valid" }
      fresh.lock_acquire(key + ":value", value, 30)
    RUBY
    expect(status).to be_success, output
    eventually { held?("#{key}:value", server) }
    expect(server.call("MGET", "#{key}:daemon", "#{key}:value", key)).to eq(["clean", "held", nil])
  end

  it "in Process.daemon inside the block: the lock is not released by the daemon" do
    output, status = ruby(<<~RUBY, patient_url, key)
      require "plock"
      url, key = ARGV
      store = Plock::Store.open(url)
      # The parent ends in this block, with exit!
      store.hold(key, 30_000, 1.0, nil) { Process.daemon(true, true) }
      store.lock_acquire(key + ":left", "left", 30)
    RUBY
    expect(status).to be_success, output
    eventually { held?("#{key}:left", server) }
    expect(held?(key, server)).to be(true)
  end
end
