# frozen_string_literal: true

# The process of one contestant written in Ruby: `worker.rb NAME PORT SOCKET`. Like floor.c, it
# reads orders from its standard input, and answers each with one line of JSON:
#
#   time WARM SECONDS   makes pairs for WARM seconds, and then measures pairs for SECONDS
#   count PAIRS         makes this many pairs without timing them; also answers with the number of
#                       objects that Ruby allocated

require_relative "answering"

module Bench
  class Worker
    include Answering

    # A slice ends after this many pairs, because a longer list of samples would only burden the
    # garbage collector.
    MAX_SAMPLES = 200_000

    def initialize(contestant, address)
      @contestant = contestant
      @pair = contestant.setup.call(address)
      @took = Array.new(MAX_SAMPLES, 0)
    end

    def run
      answer("versions" => versions)
      $stdin.each_line do |line|
        order, *arguments = line.split
        case order
        when "time" then answer(time(*arguments.map { |text| Float(text) }))
        when "count" then answer(count(Integer(arguments.first)))
        else raise Failed, "an order it does not know: #{line}"
        end
      end
    end

    private

    # The loop reads the clock once for each pair, and allocates nothing itself. So it adds the same
    # fraction of a microsecond to each contestant.
    def time(warm, seconds)
      finish = now + (warm * 1e9).to_i
      held while now < finish

      pairs = 0
      start = at = now
      finish = start + (seconds * 1e9).to_i
      while at < finish && pairs < MAX_SAMPLES
        before = at
        held
        at = now
        @took[pairs] = at - before
        pairs += 1
      end
      sorted = @took.first(pairs).sort!
      { "pairs" => pairs, "seconds" => (at - start) / 1e9,
        "p50_us" => sorted[pairs / 2] / 1e3, "p99_us" => sorted[pairs * 99 / 100] / 1e3 }
    end

    def count(pairs)
      before = GC.stat(:total_allocated_objects)
      left = pairs
      while left.positive?
        held
        left -= 1
      end
      { "pairs" => pairs, "objects" => GC.stat(:total_allocated_objects) - before }
    end

    def held
      @pair.call == :held or raise Failed, "the block was not entered"
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end
end

Bench::Answering.begin(__FILE__, Bench::Worker)
