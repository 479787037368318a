# frozen_string_literal: true

require "spec_helper"
require "support/ways_to_wait"

RSpec.describe "Interrupts during release" do
  include_context "with a gate"

  def expect_to_go_on(thread) = expect(thread.join(0.05)).to be_nil

  context "with a server that will answer" do
    let(:release_timeout) { 20 }

    %i[request reply].each do |direction|
      context "whose #{direction} is still on its way" do
        it "Thread#raise waits for the release, and is not lost" do
          thread = releasing(direction)
          thread.raise(rescue_me)
          expect_to_go_on(thread)
          gate.clear
          expect { thread.join }.to raise_error(rescue_me)
          expect(held?(key)).to be(false)
        end

        it "Thread#kill waits for the release, and is not lost" do
          thread = releasing(direction)
          thread.kill
          expect_to_go_on(thread)
          gate.clear
          expect(thread.join(5)).to equal(thread)
          expect(thread.value).to be_nil
          expect(held?(key)).to be(false)
        end

        it "several of them do not abort it either" do
          thread = releasing(direction)
          thread.raise(rescue_me)
          expect_to_go_on(thread)
          thread.kill
          thread.raise(rescue_me)
          expect_to_go_on(thread)
          gate.clear
          expect(end_of(thread)).not_to be_alive
          expect(held?(key)).to be(false)
        end
      end
    end

    it "Timeout around the hold fires after it" do
      store
      gate.forget
      thread = background do
        Timeout.timeout(0.1, rescue_me) do
          store.hold(key, Support::Failures::TTL_MS, 1.0, nil) { gate.hold(:request) && :value }
        end
      end
      gate.await(:request, "EVALSHA", times: 2)
      expect(thread.join(0.2)).to be_nil
      gate.clear
      expect { thread.join }.to raise_error(rescue_me)
      expect(held?(key)).to be(false)
    end

    it "a signal's handler still runs" do
      handled = false
      previous = trap(:USR1) { handled = true }
      thread = releasing(:reply)
      Process.kill(:USR1, Process.pid)
      eventually { handled }
      gate.clear
      expect(thread.value).to eq(:value)
    ensure
      trap(:USR1, previous || "DEFAULT")
    end

    it "a signal's handler runs while the main thread, which runs it, releases" do
      store
      url = gate.url("release_timeout=20")
      key
      other = child do |parent|
        trap(:USR1) { parent.tell(:handled) }
        warm(open_store(url)).hold(key, Support::Failures::TTL_MS, 5.0, nil) do
          gate.forget
          gate.hold(:request)
          parent.tell(:leaving)
          :value
        end
      end
      expect(other.hear).to eq(:leaving)
      gate.await(:request, "EVALSHA")
      other.signal(:USR1)
      expect(other.hear).to eq(:handled)
      expect(held?(key)).to be(true)
      gate.clear
      expect(other.result).to eq(:value)
      expect(held?(key)).to be(false)
    end

    it "a second kill or raise, after a kill began it, neither orphans the lock nor is lost" do
      %i[kill raise].each do |second|
        thread = in_block
        gate.forget
        gate.hold(:request)
        thread.kill
        gate.await(:request, "EVALSHA")
        second == :kill ? thread.kill : thread.raise(rescue_me)
        expect_to_go_on(thread)
        expect(held?(key)).to be(true)
        gate.clear
        expect(end_of(thread)).not_to be_alive
        expect(held?(key)).to be(false)
      end
    end
  end

  context "with a server that does not answer" do
    let(:release_timeout) { 0.2 }

    # The report runs while a kill is pending. A `rescue` or an exception in the report must not
    # cancel the kill.
    it "a kill survives a report that rescues something, or raises" do
      [->(*) { raise KeyError rescue 0 }, ->(*) { raise rescue_me }].each do |report|
        leaving = Queue.new
        thread = background do
          store.hold(key, Support::Failures::TTL_MS, 1.0, report) do
            gate.hold(:request)
            leaving << true
          end
        end
        leaving.pop
        gate.await(:request, "EVALSHA")
        thread.kill
        expect(end_of(thread)).not_to be_alive
        gate.clear
        eventually { !held?(key) }
      end
    end

    it "is bounded by release_timeout, and then the interrupt comes", :timing do
      at_most(0.2 + Support::Patience::MARGIN) do
        thread = releasing(:reply)
        elapsed do
          thread.raise(rescue_me)
          expect { thread.join }.to raise_error(rescue_me)
        end
      ensure
        gate.clear
        eventually { !held?(key) }
      end
    end
  end

  # Signal handlers run on the main thread, and interrupt masks do not defer them. So a handler may
  # raise at any moment of a release.
  it "leaves no lock if a signal handler raises, at any moment", :slow do
    program = <<~'RUBY'
      require "plock"
      mine, other = Array.new(2) { Plock::Store.open(ARGV.first) }
      keys = ["#{ARGV.last}-1", ARGV.last]
      armed = false
      trap(:USR1) do
        next unless armed

        armed = false
        raise IOError
      end
      Thread.new { loop { sleep(rand * 0.0004) && Process.kill(:USR1, Process.pid) } }
      GC.disable # it would release what is left behind
      interrupted, left = 0, []
      until interrupted == 300
        begin
          armed = true
          mine.acquire(keys.last, label: "why") { nil }
          mine.acquire_all(keys, label: "why") { nil }
          mine.acquire(keys.last) { nil }
          armed = false
        rescue IOError
          interrupted += 1
          free = other.try_acquire_all(keys, wait: 1) { true }
          left << interrupted unless free
        end
        break if left.any?
      end
      puts "left: #{left}"
    RUBY
    output, = ruby(program, shared_redis.unix_url, key)
    expect(output).to eq("left: []\n")
  end
end
