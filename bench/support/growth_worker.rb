# frozen_string_literal: true

# A process for the part `growth`: `growth_worker.rb NAME PORT SOCKET`. It reads orders from its
# standard input, and answers with lines of JSON. Times are in nanoseconds, on the clock that all
# processes share.
#
#   hold COUNT          acquires keys until it holds this many; answers with the average time for a
#                       key, and with its resident memory before the first key and after the last
#   release             releases all keys
#   look SECONDS        makes pairs with another key for this time, then calls each_lock once;
#                       answers with the median time of a pair, each_lock's time, and the number
#                       of keys that each_lock yields
#   enter KEY           acquires the key and stays inside; answers when it is inside
#   leave               releases the key; answers with the time at which it left
#   wait KEY COUNT      this many threads ask for the key, and each leaves as soon as it is inside;
#                       answers when the threads have started
#   drained             answers when the last thread of `wait` has left
#   queue KEY COUNT     answers when this many callers wait for the key
#   idle SECONDS        answers with the CPU time that the process uses in this time
#   visit KEY COUNT TIMES
#                       TIMES times, one more thread joins the COUNT waiters and is killed;
#                       answers with the times from each kill to the thread's end
#   renew COUNT CPU_SECONDS EVENT_SECONDS
#                       holds this many renewed leases; answers with the CPU time that it uses in
#                       CPU_SECONDS, and with how late each renewal is in EVENT_SECONDS after that

require_relative "answering"
require_relative "renewals"

module Bench
  class GrowthWorker
    include Answering

    PATIENCE = 120 # seconds, the longest wait of a waiter
    REST = 0.05 # seconds before a waiter is killed
    HELD_TTL = 3600 # seconds, so that no key expires during a measurement
    MAX_SAMPLES = 200_000

    def initialize(contestant, address)
      @contestant = contestant
      @store = Stores.open(contestant.name, address)
      @leases = []
      @store.acquire("bench:ready:#{Process.pid}") { :held }
    end

    def run
      answer("versions" => versions)
      while (line = $stdin.gets)
        order, *arguments = line.split
        obey(order, *arguments)
      end
    end

    private

    def obey(order, *arguments)
      case order
      when "hold"    then answer(hold(Integer(arguments.first)))
      when "release" then answer("released" => release)
      when "look"    then answer(look(Float(arguments.first)))
      when "enter"   then enter(*arguments)
      when "wait"    then wait(arguments.first, Integer(arguments.last))
      when "drained" then answer("last_ns" => @waiters.map(&:value).max)
      when "queue"   then queue(arguments.first, Integer(arguments.last))
      when "idle"    then answer("cpu_ns" => idle(Float(arguments.first)))
      when "visit"   then visit(arguments.first, *arguments.drop(1).map { |text| Integer(text) })
      when "renew"   then answer(renew(*arguments.map { |text| Float(text) }))
      else raise Failed, "an order it does not know: #{order}"
      end
    end

    def hold(count)
      @resident ||= resident
      added = count - @leases.size
      start = Bench.now
      while @leases.size < count
        @leases << @store.acquire("bench:held:#{@leases.size}", ttl: HELD_TTL)
      end
      { "key_ns" => (Bench.now - start) / added, "before" => @resident, "now" => resident }
    end

    # Returns how many leases were still held.
    def release
      @leases.count(&:release).tap { @leases.clear }
    end

    def look(seconds)
      pair = pair(seconds)
      keys = 0
      start = Bench.now
      @store.each_lock { keys += 1 }
      { "pair_ns" => pair, "each_lock_ns" => Bench.now - start, "keys" => keys }
    end

    # Returns the median time of a pair. The loop itself allocates no objects, because their garbage
    # collection would be measured as part of the pairs.
    def pair(seconds)
      took = Array.new(MAX_SAMPLES, 0)
      pairs = 0
      at = Bench.now
      finish = at + (seconds * 1e9).to_i
      while at < finish && pairs < MAX_SAMPLES
        before = at
        @store.acquire("bench:other") { :held }
        at = Bench.now
        took[pairs] = at - before
        pairs += 1
      end
      took.first(pairs).sort![pairs / 2]
    end

    def enter(key)
      left = nil
      @store.acquire(key, ttl: HELD_TTL) do
        answer("entered" => true)
        $stdin.gets # "leave", or the end of the input
        left = Bench.now
      end
      answer("left_ns" => left)
    end

    def wait(key, count)
      @waiters = Array.new(count) do
        Thread.new { @store.acquire(key, ttl: TTL, wait: PATIENCE) { Bench.now } }
      end
      answer("started" => count)
    end

    def queue(key, count)
      await(key, count)
      answer("queued_ns" => Bench.now)
    end

    # status lists all waiters, so it takes longer if there are more of them. The pauses keep its
    # share of the time small.
    def await(key, count)
      deadline = Bench.now + (PATIENCE * 1_000_000_000)
      loop do
        start = Bench.now
        return if @store.status(key).waiters.size >= count
        raise Failed, "the waiters do not queue up" if Bench.now > deadline

        sleep([(Bench.now - start) * 4 / 1e9, 0.0002].max)
      end
    end

    def idle(seconds)
      before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
      sleep(seconds)
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) - before
    end

    def visit(key, count, times)
      took = Array.new(times) do
        visitor = Thread.new { @store.acquire(key, ttl: TTL, wait: PATIENCE) { :held } }
        await(key, count + 1)
        GC.start # otherwise the measured time might include collecting the garbage of #await
        sleep(REST)
        start = Bench.now
        visitor.kill.join
        Bench.now - start
      end
      answer("left_ns" => took.sort)
    end

    def renew(count, cpu_seconds, event_seconds)
      renewals = Renewals.new(@store, count.to_i)
      { "cpu_ns" => renewals.cpu(cpu_seconds), "late_ns" => renewals.late(event_seconds) }
    ensure
      renewals&.release
    end

    # Returns the resident memory in bytes.
    def resident
      GC.start
      File.read("/proc/self/statm").split[1].to_i * 4096
    end
  end
end

Bench::Answering.begin(__FILE__, Bench::GrowthWorker)
