# frozen_string_literal: true

require "spec_helper"

# A caller that has timed out must not count as a waiter, either in its own error or in a status
# right afterwards.
RSpec.describe "The status after a timeout" do
  tries = 40

  let(:key) { "in-vain:#{SecureRandom.hex(8)}" }

  # If the status arrives too late, the error has no status. This budget is long enough for a busy
  # machine.
  before { stub_const("Plock::Locking::Acquisition::EXAMINE_BUDGET", 5.0) }

  # The number of waiters in the error, and in the status right afterwards.
  def waiting_after
    yield
  rescue Plock::TimeoutError => e
    [e.status.waiters.size, store.status(e.status).waiters.size]
  end

  # For each kind of lock: how to hold it, and how many holders it may have.
  kinds = {
    "acquire" => [->(wait) { store.acquire(key, wait: wait) }, 1],
    "acquire_all" => [->(wait) { store.acquire_all([key, "#{key}:2"], wait: wait) }, 1],
    "a semaphore" => [->(wait) { store.semaphore(key, permits: 2).acquire(wait: wait) }, 2],
    "write" => [->(wait) { in_thread { store.read_write_lock(key).write(wait: wait) } }, 1]
  }

  def in_thread(&block) =
    Thread.new { block.call }.tap { |thread| thread.report_on_exception = false }.value

  # In these examples, leave is the only script that is called with seven words.
  leave = /\*7\r\n\$7\r\nEVALSHA\r\n\$40\r\n(\h{40})\r\n/

  {
    "acquire" => ->(store, key) { store.acquire(key, wait: 0.2) },
    "acquire_all" => ->(store, key) { store.acquire_all([key, "#{key}:2"], wait: 0.2) }
  }.each do |name, take|
    it "does not count the caller, even before its leave arrives: #{name}" do
      gate = proxy(shared_redis)
      store = open_store(gate.url, attempt_timeout: 10, command_timeout: 10, release_timeout: 10)
      discard(open_store.acquire(key), :release)
      in_vain = -> { take.call(store, key) }
      expect(&in_vain).to raise_error(Plock::TimeoutError)
      gate.hold(:request, after: gate.seen(:request)[leave, 1], connections: 1)
      expect(&in_vain).to raise_error(Plock::TimeoutError) { |error|
        expect(error.status.waiters).to be_empty
      }
      expect(open_store.status(key).waiters.size).to be(1) # others still see the caller's record
      gate.clear
      eventually { open_store.status(key).waiters.empty? }
    end
  end

  {
    "Redis" => -> { open_store(proxy(shared_redis).url) },
    "a local store" => -> {
      dir = Dir.mktmpdir("plock-")
      discard(-> { FileUtils.remove_entry(dir) }, :call)
      open_store("local:#{dir}/locks")
    },
    "a store in memory" => -> { open_store("memory:") }
  }.each do |name, opened|
    # On Redis, a caller that leaves the queue waits at most 20 ms for the answer, so a slow answer
    # would make the example fail.
    context "on #{name}", *(:timing if name == "Redis") do
      let(:store, &opened)

      kinds.each do |kind, (take, permits)|
        it "does not count the caller: #{kind}" do
          leases = Array.new(permits) { instance_exec(1, &take) }.flatten
          leases.each { |lease| discard(lease, :release) }
          expect(Array.new(tries) { waiting_after { instance_exec(0.003, &take) } }).to all(
            eq([0, 0])
          )
        end
      end

      it "counts another thread as long as that thread waits" do
        lease = discard(store.acquire(key), :release)
        other = background { store.acquire(key, wait: 60, &:itself) }
        eventually { store.status(key).waiters.size == 1 }
        expect(Array.new(5) { waiting_after { store.acquire(key, wait: 0.003) } }).to all(
          eq([1, 1])
        )
        other.kill.join
        eventually { store.status(key).waiters.empty? }
        lease.release
      end
    end
  end
end
