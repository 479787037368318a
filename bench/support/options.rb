# frozen_string_literal: true

require "optparse"
require_relative "bench"

module Bench
  # What the command line asks for.
  class Options
    attr_reader :seconds, :rounds, :placements, :cores, :only, :server, :million, :record

    def initialize(arguments)
      @seconds = 0.2
      @rounds = 25
      @placements = %w[one two]
      @cores = [0, 1]
      @server = "redis-server"
      parser.parse!(arguments.dup)
    end

    # Those asked for, and always the floors they are set against.
    def pick(contestants)
      return contestants.values unless only

      unknown = only - contestants.keys
      raise Failed, "no contestant named #{unknown.join(", ")}; there are #{contestants.keys.join(", ")}" if unknown.any?

      transports = only.map { |name| contestants.fetch(name).transport }
      contestants.values.select { |one| only.include?(one.name) || (one.floor? && transports.include?(one.transport)) }
    end

    private

    def parser
      OptionParser.new do |o|
        o.banner = "usage: ruby bench/run.rb [options]"
        o.on("--seconds S", Float, "length of one slice (0.2)") { |value| @seconds = positive(value, "--seconds") }
        o.on("--rounds N", Integer, "slices per contestant and placement (25)") { |value| @rounds = positive(value, "--rounds") }
        o.on("--placements LIST", Array, "one, two or both (one,two)") { |value| @placements = known(value) }
        o.on("--cores SERVER,CLIENT", Array, "cores to use (0,1); the client's is the one they share") { |value| @cores = pair(value) }
        o.on("--only LIST", Array, "contestants by name: #{Bench.contestants.keys.join(", ")}") { |value| @only = value }
        o.on("--server PROGRAM", "the server to start (redis-server)") { |value| @server = value }
        o.on("--million", "also watch plock's memory over a million pairs (some minutes)") { @million = true }
        o.on("--record", "write the tables into bench/README.md") { @record = true }
      end
    end

    def positive(value, name) = value.positive? ? value : raise(Failed, "#{name} must be more than 0")

    def known(names)
      (names - %w[one two]).empty? ? names : raise(Failed, "--placements knows one and two")
    end

    def pair(texts)
      raise Failed, "--cores takes two numbers, as in 0,1" unless texts.size == 2 && texts.all?(/\A\d+\z/)

      texts.map { |text| Integer(text, 10) }
    end
  end
end
