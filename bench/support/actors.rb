# frozen_string_literal: true

require_relative "bench"

module Bench
  # The work of an actor, which is a thread, a fiber or a Ractor with an open store. All three kinds
  # run this code, so it may only use objects that every Ractor can use.
  module Actors
    STAY = 0.001 # seconds inside, during which the other actors ask for the key

    module_function

    # Makes this many pairs with a free key. Returns the start and the end in nanoseconds.
    def pairs(store, key, count)
      start = Bench.now
      left = count
      while left.positive?
        store.acquire(key) { :held }
        left -= 1
      end
      [start, Bench.now]
    end

    # Acquires and releases the key again and again until `finish`. Returns the times of each entry
    # and exit. All times are in nanoseconds.
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

  # A group of actors of one kind. In this class, the actors are threads that share one store.
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

  # Actors that are fibers under async's scheduler. Their reactor has its own thread.
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

  # Actors that are Ractors. Each opens its own store, and keeps it for later orders.
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
