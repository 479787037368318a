# frozen_string_literal: true

require "spec_helper"

RSpec.describe Plock::Dispatcher do
  let(:stronger) { Class.new(Exception) } # rubocop:disable Lint/InheritException -- as assertions

  it "runs callbacks in order, on one thread of its own" do
    ran = Queue.new
    described_class.start
    3.times { |number| described_class.post(-> { ran << [number, Thread.current.name] }) }
    described_class.flush
    expect(Array.new(ran.size) { ran.pop }).to eq(
      [0, 1, 2].map { |number| [number, "plock notices"] }
    )
  end

  it "reports a loss before it runs callbacks that are posted after that loss" do
    order, gate = Queue.new, Queue.new
    store = Plock::Store.open("memory:")
    store.acquire("k", on_lost: ->(_) { order << :lost }) do
      described_class.post(-> { gate.pop })
      store.break("k")
      described_class.post(-> { order << :after })
      gate << true
      described_class.flush
    end
    expect(Array.new(2) { order.pop }).to eq(%i[lost after])
  end

  # A signal handler cannot lock a mutex. In this program, the first call of the process is an
  # acquire in a handler, so the dispatcher must start without locking a mutex.
  it "begins in a signal handler, too" do
    program = <<~RUBY
      require "plock"
      store = Plock::Store.open(ARGV[0])
      done = Queue.new
      lost = ->(_) { done << "lost" }
      trap(:USR1) { done << (store.acquire("k", ttl: 30, on_lost: lost) rescue $!) }
      Process.kill(:USR1, Process.pid)
      puts done.pop.class
      store.break("k")
      puts done.pop
    RUBY
    [shared_redis.unix_url, "local:#{Support::Supervisor.folder}/in-a-handler/locks"].each do |url|
      expect(ruby(program, url)).to match(["Plock::Lease\nlost\n", be_success])
    end
  end

  it "survives exceptions of callbacks" do
    heard = warnings do
      described_class.start
      described_class.post(-> { raise NotImplementedError, "not a StandardError" })
      described_class.post(-> { raise stronger, "an assertion of a test, for example" })
      described_class.flush
    end
    expect(heard).to match([/NotImplementedError: not a StandardError/, /: an assertion/])
  end

  {
    "raises what is no StandardError" => ->(error) { raise error },
    "ends the thread" => ->(_) { Thread.exit }
  }.each do |what, subscriber|
    it "reports a loss to its block though a subscriber #{what}" do
      store = open_store("memory:")
      subscription = Plock.subscribe(:lost) { subscriber.call(stronger) }
      warnings do
        expect do
          store.acquire("k", on_lost: :raise) { store.break("k") && sleep(5) }
        end.to raise_error(Plock::LeaseLost)
        described_class.start
        described_class.flush
      end
    ensure
      Plock.unsubscribe(subscription)
    end
  end

  it "runs each callback within the surroundings, if any are set" do
    described_class.surroundings = ->(&block) do
      Thread.current[:surrounded] = true
      block.call
    ensure
      Thread.current[:surrounded] = nil
    end
    ran = Queue.new
    described_class.start
    described_class.post(-> { ran << Thread.current[:surrounded] })
    described_class.flush
    expect(ran.pop).to be(true)
  ensure
    described_class.surroundings = nil
  end

  it "reports a loss to no other lease, even if the WeakMap returns one for the id" do
    lost = []
    lease =
      discard(
        open_store.acquire(unique_key, ttl: 60, on_lost: ->(which) { lost << which }), :release
      )
    id = lease.hold.id
    described_class.instance_variable_get(:@leases)[id + 1_000_000] = lease
    described_class.post([:lost, id + 1_000_000])
    described_class.flush
    expect(lost).to be_empty
    described_class.post([:lost, id])
    described_class.flush
    expect(lost).to eq([lease])
  end

  it "can be asked to flush from its own thread" do
    done = Queue.new
    described_class.start
    described_class.post(-> { done << described_class.flush })
    expect(done.pop).to be_nil
  end

  it "works in a forked child, which gets none of the parent's callbacks" do
    ran = Queue.new
    described_class.start
    blocked = Queue.new
    described_class.post(-> { blocked.pop })
    described_class.post(-> { ran << Process.pid })
    child = in_child do
      described_class.flush
      described_class.post(-> { ran << :own })
      described_class.flush
      Array.new(ran.size) { ran.pop }
    end
    blocked << true
    described_class.flush
    expect([child, ran.pop]).to eq([[:own], Process.pid])
  end

  it "ends with the process, even if it was started under a mask" do
    output, status = ruby(<<~RUBY, within: 10)
      require "plock"
      Thread.handle_interrupt(Object => :never) { Plock::Dispatcher.flush }
      puts "end"
    RUBY
    expect([output, status.success?]).to eq(["end\n", true])
  end

  it "lets exit in a callback end the process" do
    output, status = ruby(<<~RUBY, within: 10)
      require "plock"
      store = Plock::Store.open("memory:")
      store.acquire("k", on_lost: ->(_) { exit 7 }) { store.break("k"); sleep }
    RUBY
    expect([output, status.exitstatus]).to eq(["", 7])
  end
end
