# frozen_string_literal: true

require "optparse"
require_relative "bench"

module Bench
  # The options of the command line.
  class Options
    attr_reader :parts,
                :only,
                :placements,
                :cores,
                :server,
                :seconds,
                :rounds,
                :million,
                :handoffs,
                :contest,
                :waiting,
                :fibers,
                :huge,
                :record

    CONTEST = (0.1..20.0).freeze # seconds; the waiter that is served last must not time out
    WAITING = (0.1..9.0).freeze  # seconds; must be less than TTL

    def initialize(arguments, parts)
      @known_parts = @parts = parts
      @placements = %w[one two]
      @cores = [0, 1]
      @server = "redis-server"
      @seconds = 0.2
      @rounds = 25
      @handoffs = 100
      @contest = 5.0
      @waiting = 5.0
      @fibers = 1000
      parser.parse!(arguments.dup)
    end

    # Returns the requested contestants, and always the floors with which they are compared.
    def pick(contestants)
      return contestants.values unless only

      chosen = known(only, contestants.keys, "contestant").map { |name| contestants.fetch(name) }
      contestants.values.select do |one|
        chosen.include?(one) || (one.floor? && chosen.any? { |other| other.beside?(one) })
      end
    end

    private

    def parser
      OptionParser.new do |o|
        o.banner = "usage: ruby bench/run.rb [options]"
        what_and_where(o)
        how_long(o)
        o.on("--record", "write the tables into bench/README.md") { @record = true }
      end
    end

    def what_and_where(o)
      o.on("--parts LIST", Array, "what to measure (all): #{@known_parts.join(", ")}") do |value|
        @parts = known(value, @known_parts, "part")
      end
      o.on(
        "--only LIST", Array, "contestants by name: #{Bench.contestants.keys.join(", ")}"
      ) { |value| @only = value }
      o.on("--placements LIST", Array, "one, two or both (one,two)") do |value|
        @placements = known(value, %w[one two], "placement")
      end
      o.on(
        "--cores SERVER,CLIENT", Array, "cores to use (0,1); the client's is the one they share"
      ) { |value| @cores = pair(value) }
      o.on("--server PROGRAM", "the server to start (redis-server)") { |value| @server = value }
    end

    def how_long(o)
      o.on("--seconds S", Float, "pairs: length of one slice (0.2)") do |value|
        @seconds = positive(value, "--seconds")
      end
      o.on("--rounds N", Integer, "pairs: slices per contestant and placement (25)") do |value|
        @rounds = positive(value, "--rounds")
      end
      o.on("--million", "pairs: also watch plock's memory over a million (some minutes)") do
        @million = true
      end
      o.on("--handoffs N", Integer, "handoff: of each contestant (100)") do |value|
        @handoffs = positive(value, "--handoffs")
      end
      o.on("--contest S", Float, "fairness, threads, mixed: length (5)") do |value|
        @contest = within(CONTEST, value, "--contest")
      end
      o.on("--waiting S", Float, "cost: length of the wait (5)") do |value|
        @waiting = within(WAITING, value, "--waiting")
      end
      o.on("--fibers N", Integer, "fibers: how many (1000)") do |value|
        @fibers = positive(value, "--fibers")
      end
      o.on("--huge", "growth: also a million keys and 10,000 waiters (some minutes more)") do
        @huge = true
      end
    end

    def positive(value, name) =
      value.positive? ? value : raise(Failed, "#{name} must be more than 0")

    def within(range, value, name) =
      if range.cover?(value)
        value
      else
        raise(Failed, "#{name} must be from #{range.first} to #{range.last}")
      end

    def known(names, all, what)
      unknown = names - all
      if unknown.empty?
        names
      else
        raise(Failed, "no #{what} named #{unknown.join(", ")}; there are #{all.join(", ")}")
      end
    end

    def pair(texts)
      unless texts.size == 2 && texts.all?(/\A\d+\z/)
        raise Failed, "--cores takes two numbers, as in 0,1"
      end

      texts.map { |text| Integer(text, 10) }
    end
  end
end
