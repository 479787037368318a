# frozen_string_literal: true

# A process for the part `ractors`: `actors_worker.rb NAME PORT SOCKET`. It reads orders from its
# standard input, and answers with lines of JSON.
#
#   gather KIND COUNT     prepares this many threads, fibers or Ractors for later orders
#   pairs COUNT           makes this many pairs, divided evenly among the actors, each with its
#                         own key; answers with the number of pairs, and the nanoseconds from the
#                         first actor's start to the last actor's end
#   sections KEY SECONDS  all actors want one key; answers with the nanoseconds from each exit to
#                         the next actor's entry, and with each actor's number of entries

require_relative "actors"
require_relative "answering"

module Bench
  class ActorsWorker
    include Answering

    def initialize(contestant, address)
      @contestant = contestant
      @url = Stores.url(contestant.name, address)
      @store = Stores.open(contestant.name, address)
    end

    def run
      answer("versions" => versions)
      while (line = $stdin.gets)
        order, *arguments = line.split
        case order
        when "gather"   then gather(arguments.first, Integer(arguments.last))
        when "pairs"    then answer(pairs(Integer(arguments.first)))
        when "sections" then answer(sections(arguments.first, Float(arguments.last)))
        else raise Failed, "an order it does not know: #{line}"
        end
      end
    end

    private

    def gather(kind, count)
      @count = count
      @actors =
        case kind
        when "threads" then ThreadActors.new(@store, count)
        when "fibers"  then FiberActors.new(@store, count)
        when "ractors" then RactorActors.new(@url.freeze, SECRET, count)
        else raise Failed, "no such actors: #{kind}"
        end
      @actors.pairs(1) # opens connections and loads scripts
      answer("ready" => count)
    end

    def pairs(count)
      each = count / @count
      starts, ends = @actors.pairs(each).transpose
      { "pairs" => each * @count, "took_ns" => ends.max - starts.min }
    end

    def sections(key, seconds)
      stays = @actors.sections(key, Bench.now + (seconds * 1e9).to_i)
      { "handoffs_ns" => handoffs(stays), "entered" => stays.map(&:size) }
    end

    def handoffs(stays)
      stays
        .each_with_index
        .flat_map { |own, actor| own.map { |entered, left| [entered, left, actor] } }
        .sort
        .each_cons(2)
        .filter_map { |one, other| other[0] - one[1] if one[2] != other[2] }
        .sort
    end
  end
end

Bench::Answering.begin(__FILE__, Bench::ActorsWorker)
