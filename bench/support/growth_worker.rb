# frozen_string_literal: true

# A process of the part `growth`: `growth_worker.rb NAME PORT SOCKET`. Obeys lines on its standard
# input and answers with lines of JSON. Times are nanoseconds on the clock that all processes share.
#
#   hold COUNT          acquires keys until it holds that many; answers with the time per key, and
#                       with its resident memory before the first key and now
#   release             releases them all
#   look SECONDS        pairs of another key for that long, then one each_lock;
#                       answers with the median of the pairs, and the time and the number of keys
#   enter KEY           acquires and stays inside; answers when it is in
#   leave               releases; answers when it left
#   wait KEY COUNT      that many threads ask for the key, and leave as soon as they are in;
#                       answers when the threads run
#   drained             answers when the last of these threads left
#   queue KEY COUNT     answers when that many wait for the key
#   idle SECONDS        answers with the CPU time that the process uses in this time
#   visit KEY COUNT TIMES
#                       one thread more joins the COUNT waiters and is killed, that often;
#                       answers with the times from the kill until the thread has ended
#   renew COUNT CPU_SECONDS EVENT_SECONDS
#                       holds that many renewed leases; answers with the CPU time in the first
#                       span, and with how late each renewal in the second one was

require_relative "answering"
require_relative "renewals"

module Bench
  class GrowthWorker
    include Answering

    PATIENCE = 120 # seconds that a waiter waits at most
    REST = 0.05 # seconds before a waiter is killed
    HELD_TTL = 3600 # seconds: nothing expires during a measurement
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

    # How many were still held.
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

    # The median. Nothing but the pair allocates between two readings of the clock.
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

    # A look lists all waiters, so it takes longer the more there are. The pauses keep its share
    # small.
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
        GC.start # otherwise the end of the thread waits for the garbage of the last look
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

    # Bytes.
    def resident
      GC.start
      File.read("/proc/self/statm").split[1].to_i * 4096
    end
  end
end

Bench::Answering.begin(__FILE__, Bench::GrowthWorker)
