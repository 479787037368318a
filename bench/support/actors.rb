# frozen_string_literal: true

require_relative "bench"

module Bench
  # What each actor does: a thread, a fiber or a Ractor, with a store that is open. All three run
  # the same code, so nothing here may belong to one Ractor.
  module Actors
    STAY = 0.001 # seconds inside, in which the others ask

    module_function

    # Nanoseconds of the start and the end of that many pairs of a free key.
    def pairs(store, key, count)
      start = Bench.now
      left = count
      while left.positive?
        store.acquire(key) { :held }
        left -= 1
      end
      [start, Bench.now]
    end

    # Enters and leaves until the time is up. Returns when it was in: pairs of nanoseconds.
    def sections(store, key, finish)
      stays = []
      while Bench.now < finish
        store.acquire(key, ttl: TTL, wait: WAIT) do
          entered = Bench.now
          sleep(STAY)
          stays << [entered, Bench.now]
        end
      end
      stays
    end
  end

  # Actors of one kind. Each block gets a store and the actor's number, and must not refer to
  # anything else.
  class ThreadActors
    def initialize(store, count)
      @store = store
      @count = count
    end

    def pairs(count)
      each { |store, number| Actors.pairs(store, "bench:actor:#{number}", count) }
    end

    def sections(key, finish)
      each { |store, _| Actors.sections(store, key, finish) }
    end

    private

    def each
      Array.new(@count) { |i| Thread.new { yield @store, i } }.map(&:value)
    end
  end

  # The scheduler is that of async. The reactor has a thread of its own.
  class FiberActors < ThreadActors
    private

    def each
      require "async"

      reactor =
        Thread.new do
          Sync { |task| Array.new(@count) { |i| task.async { yield @store, i } }.map(&:wait) }
        end
      reactor.value
    end
  end

  # Each Ractor opens its own store, and keeps it from one order to the next.
  class RactorActors
    def initialize(url, secret, count)
      Warning[:experimental] = false
      @ractors = Array.new(count) { |i| start(url, secret, i) }
    end

    def pairs(count) = all([:pairs, count].freeze)
    def sections(key, finish) = all([:sections, key, finish].freeze)

    private

    def start(url, secret, number)
      Ractor.new(url, secret, number) do |place, word, own|
        store = Plock::Store.open(place, secret: word)
        store.status("bench")
        loop do
          what, *how = Ractor.receive
          how.unshift("bench:actor:#{own}") if what == :pairs
          Ractor.yield(Actors.public_send(what, store, *how))
        end
      end
    end

    def all(order)
      @ractors.each { |ractor| ractor.send(order) }
      @ractors.map(&:take)
    end
  end
end
