# frozen_string_literal: true

require_relative "contender"

module Bench
  # Processes that all want one key all the time.
  module Contest
    WARM_UP = 1.0 # seconds under contention, because a process's first wait includes preparations

    # One thread's number of entries, and its longest wait.
    Share = Struct.new(:contestant, :sections, :longest_ns)

    module_function

    # Returns a Share for each thread.
    def run(contenders, key, seconds, threads: 1, warm_up: WARM_UP)
      start = Bench.now + (warm_up * 1e9).to_i
      finish = start + (seconds * 1e9).to_i
      contenders.each { |contender| contender.contend(key, threads, start, finish) }
      contenders.flat_map do |contender|
        contender
          .contended(warm_up + seconds)
          .fetch("shares")
          .map { |sections, longest| Share.new(contender.contestant, sections, longest) }
      end
    end
  end

  # The shares of several threads together.
  class Shares
    attr_reader :threads

    def initialize(shares, seconds)
      @sections = shares.map(&:sections)
      @longest_ns = shares.map(&:longest_ns).max
      @threads = shares.size
      @seconds = seconds
    end

    def total = @sections.sum
    def rate = total / @seconds
    def least = @sections.min
    def most = @sections.max
    def evenness = most.zero? ? 0.0 : least.fdiv(most)
    def longest_ms = @longest_ns / 1e6

    def to_h =
      {
        sections_per_s: rate, least: least, most: most, least_of_most: evenness,
        longest_wait_ms: longest_ms, threads: threads
      }
  end
end
