# frozen_string_literal: true

require "spec_helper"
require "support/failures"

RSpec.describe "At exit" do
  include Support::Failures

  let(:server) { redis_server }
  let(:key) { unique_key }

  let(:preamble) { <<~RUBY }
    require "plock"
    url, key = ARGV
    store = Plock::Store.open(url)
    now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
  RUBY

  def program(text, address = server.unix_url) = ruby(preamble + text, address, key)

  it "a store serves in tests that minitest runs after our at_exit" do
    output, = ruby(<<~RUBY, server.unix_url, key)
      require "minitest/autorun" # its at_exit is registered first, so it runs last
      require "plock"
      STORE = Plock::Store.open(ARGV[0])
      STORE.hold(ARGV[1], 3_000, 1.0, nil) { }
      class LateTest < Minitest::Test
        def test_late
          assert_equal :entered, STORE.hold(ARGV[1], 30_000, 1.0, nil) { :entered }
          other = Plock::Store.open(ARGV[0])
          assert_equal :entered, other.hold(ARGV[1], 30_000, 1.0, nil) { :entered }
        end
      end
      ARGV.slice!(2..)
    RUBY
    expect(output).to match(/1 runs, 2 assertions, 0 failures, 0 errors/)
    expect(held?(key, server)).to be(false)
  end

  it "a store serves in an at_exit that runs after ours" do
    last = "at_exit { puts STORE.hold(ARGV[1], 30_000, 1.0, nil) { :entered } }"
    output, = ruby("#{last}\n#{preamble}STORE = store", server.unix_url, key)
    expect(output).to eq("entered\n")
    expect(held?(key, server)).to be(false)
  end

  it "a lease that another thread holds is released" do
    output, status = program(<<~RUBY)
      inside = Queue.new
      Thread.new { store.hold(key, 60_000, 1.0, nil) { inside << 1; sleep } }
      inside.pop
    RUBY
    expect([output, status.success?, held?(key, server)]).to eq(["", true, false])
  end

  it "a lease of the main thread is released, however it ends" do
    [
      "exit 3", "abort", "raise 'over'", "Process.kill(:TERM, Process.pid); sleep",
      "Thread.current.kill"
    ].each do |ending|
      program("store.hold(key, 60_000, 1.0, nil) { #{ending} }")
      expect([ending, held?(key, server)]).to eq([ending, false])
    end
  end

  it "is left out by exit!, which leaves the lease to its TTL, or to the death of the process" do
    local = "local:#{Support::Supervisor.folder}/exit-at-once/locks"
    [server.unix_url, local].each do |url|
      program("store.acquire(key, ttl: 60) { exit! }", url)
    end
    held = [server.unix_url, local].map { |url| Plock::Store.open(url).status(key).held? }
    expect(held).to eq([true, false])
  end

  it "an undo that is still under way in the background is finished" do
    gate = proxy(server)
    gate.swallow(:reply, after: key, connections: 1)
    program(<<~RUBY, gate.url)
      store.hold("warming", 3_000, 1.0, nil) { }
      begin
        store.lock_acquire(key, Plock.token, 60)
      rescue Plock::UnavailableError
        exit
      end
    RUBY
    expect(held?(key, server)).to be(false)
  end

  # At the end of a process, all releases share 0.25 s. After that, each further release has 10 ms.
  # The examples allow 0.15 s more, because Ruby also needs time to end.
  { 1 => 0.25, 8 => 0.25 + (8 * 0.01) }.each do |count, budget|
    milliseconds = (budget * 1000).round

    it "takes at most #{milliseconds} ms when the server does not answer a thread with leases " \
       "(#{count})", :timing do
      at_most(budget + 0.15) { time_of_end(Array.new(count) { unique_key }) }
    end
  end

  # Seconds from the call of exit to the process's end, while a thread is inside blocks of these
  # keys.
  def time_of_end(keys)
    gate = proxy(server)
    output, = program(<<~RUBY, gate.url("release_timeout=10"))
      inside = Queue.new
      enter = lambda do |keys|
        if keys.empty? then (inside << 1) && sleep
        else store.hold(keys.first, 60_000, 1.0, nil) { enter.call(keys.drop(1)) }
        end
      end
      Thread.new { enter.call(#{keys}) }
      inside.pop
      Process.kill(:STOP, #{server.pid})
      STDOUT.sync = true
      puts now.call
      exit
    RUBY
    ended = monotonic
    server.continue_process
    keys.each { |name| eventually { !held?(name, server) || server.call("DEL", name) } }
    ended - Float(output.lines.first)
  end

  it "nothing is printed, and the status stays, when the server is gone" do
    output, status = program(<<~RUBY)
      inside = Queue.new
      Thread.new { store.hold(key, 60_000, 1.0, nil) { inside << 1; sleep } }
      inside.pop
      Process.kill(:KILL, #{server.pid})
      exit 7
    RUBY
    expect(status.exitstatus).to eq(7)
    expect(output).not_to match(/plock|Plock/)
  end

  # When Ruby kills a thread, the thread's `ensure` clauses run. If one of them raises, its
  # exception replaces the kill.
  it "a thread of plock's own ends with the process, whatever it raises meanwhile" do
    expect(program(<<~RUBY)).to match(["", be_success])
      inside = Queue.new
      Plock::Background.launch do
        loop do
          Plock::Background.guard("a notice") do
            inside << 1
            sleep
          ensure
            raise "on the way"
          end
        end
      end
      inside.pop
    RUBY
  end

  # The thread that receives notices has already ended, and Ruby starts no new threads.
  {
    "on Redis" => [:redis, "Plock::Store.open(url)"],
    "in a file" => [:file, 'Plock::Store.open("local:#{folder}/locks")'],
    "in memory" => [:memory, 'Plock::Store.open("memory:")'],
    "in a database" => [:databases, "in_sqlite"]
  }.each do |where, (kind, opened)|
    it "a lock #{where} serves a thread that ends with the process", kind do
      if kind == :databases
        require "support/databases"
        database = Support::Databases.model(:sqlite).connection_db_config.database
      end
      expect(program(<<~RUBY)).to match(["entered\n", be_success])
        def in_sqlite
          require "plock/store/database"
          ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: #{database.inspect})
          Plock::Store::Database.new(ActiveRecord::Base)
        end
        folder = "#{Dir.mktmpdir(nil, Support::Supervisor.folder)}"
        store = #{opened}
        inside = Queue.new
        Thread.new do
          inside << 1
          sleep
        ensure
          Thread.pass while Thread.main.alive? # Ruby has told all threads to end
          store.acquire(key, ttl: 5, renew: true, on_lost: -> {}) { puts "entered" }
          Plock::Dispatcher.flush
        end
        inside.pop
      RUBY
    end
  end

  describe "a release that a store in Ruby still owes" do
    owe = <<~RUBY
      require "plock/store/support/debts"
      STDOUT.sync = true
      debt = Plock::Store::Debts.add(now.call + 60)
    RUBY

    it "is made" do
      expect(program(<<~RUBY)).to match(["child\nreleased\n", be_success])
        #{owe}
        Process.wait(fork { puts "child" })
        Thread.new { sleep(0.05) && puts("released") || Plock::Store::Debts.pay(debt) }
      RUBY
    end

    it "is forgotten when there is nothing left to release" do
      expect(program(<<~RUBY)).to match(["1\n", be_success])
        require "plock/store/support/debts"
        3.times { Plock::Store::Debts.add(now.call - 1) }
        puts Plock::Store::Debts.instance_variable_get(:@owed).size
      RUBY
    end

    it "has 250 ms", :timing do
      at_most(0.25 + 0.15) do
        output, = program("#{owe}puts now.call")
        monotonic - Float(output)
      end
    end
  end

  it "exit! and SIGKILL leave the lock to its ttl" do
    program("store.hold(key, 60_000, 1.0, nil) { exit! }")
    expect(server.call("PTTL", key)).to be_between(1, 60_000)
  end
end
