# frozen_string_literal: true

require_relative "ways"

module Torture
  # Picks from { choice => weight }.
  def self.pick(random, weights)
    left = random.rand * weights.values.sum
    weights.each { |choice, weight| return choice if (left -= weight).negative? }
    weights.keys.last
  end

  # What a lane does next: all of it is drawn before any of it is done. Times in seconds.
  #   way        how it asks, and for which key
  #   pause      before it asks
  #   hold       how long it stays inside; longer than ttl: overruns its lease, or renews it
  #   deed       what else happens inside: nil, :compact, :fork, :leave (a fork whose child runs on, out of the block), :oops,
  #              :downgrade (a writer becomes a reader)
  #   interrupt  when a Timeout breaks the call off, nil: not at all
  Plan = Struct.new(:way, :pause, :key, :wait, :ttl, :hold, :renew, :deed, :interrupt, keyword_init: true) do
    def self.draw(random, ways = WAYS)
      way = Torture.pick(random, ways.to_h { |one| [one, one.weight] })
      ttl = Torture.pick(random, Plan::TTLS)
      length = Torture.pick(random, Plan::LENGTHS)
      share = random.rand
      deed = Torture.pick(random, way.mode == "w" ? Plan::DEEDS_OF_WRITERS : Plan::DEEDS)
      new(way: way, pause: (random.rand**2) * Plan::PAUSE, key: way.keys.sample(random: random), wait: Torture.pick(random, Plan::WAITS), ttl: ttl,
          hold: hold(length, share, ttl), renew: length == :renewed, deed: deed,
          interrupt: (random.rand * 0.3 if deed.nil? && random.rand < Plan::INTERRUPTED))
    end

    def self.hold(length, share, ttl)
      case length
      when :none then 0.0
      when :short then share * 0.006
      when :medium then 0.01 + (share * 0.03)
      when :edge then ttl * (0.985 + (share * 0.03)) # the release meets the end of the lease
      else ttl * (1.1 + (share * 0.6)) # :overrun, :renewed
      end
    end
    private_class_method :hold
  end

  Plan::PAUSE = 0.12
  Plan::TTLS = { 0.25 => 2, 0.5 => 2, 1.0 => 1 }.freeze
  Plan::LONGEST_TTL = Plan::TTLS.keys.max
  Plan::WAITS = { 0.0 => 2, 0.05 => 2, 0.3 => 2, 1.0 => 4, 3.0 => 6 }.freeze
  Plan::LENGTHS = { none: 20, short: 72, medium: 7, edge: 0.2, overrun: 0.25, renewed: 0.3 }.freeze
  Plan::DEEDS = { nil => 96, compact: 0.2, fork: 0.4, leave: 0.3, oops: 2 }.freeze
  Plan::DEEDS_OF_WRITERS = { **Plan::DEEDS, downgrade: 30 }.freeze
  Plan::INTERRUPTED = 0.03

  # What the driver does next, and to whom.
  #   pause     before it
  #   slot      the worker that it hits
  #   duration  how long a worker stands still, or nothing is done
  #   roll      0...1: which of the connections
  Blow = Struct.new(:kind, :pause, :slot, :duration, :roll, keyword_init: true)

  # Blows without end, from a pack of cards that is shuffled anew when all are played: so none stays out for long.
  class Blows
    PAUSE = 0.4
    CALM = 3.5 # long enough for everything to recover, and to be watched for a while
    LONGEST_STOP = 1.5
    PACK = { kill: 4, stop: 6, cut: 4, cut_pubsub: 5, flush: 3, restart: 1, calm: 1 }
           .flat_map { |kind, count| [kind] * count }.freeze

    def initialize(random)
      @random = random
      @pack = []
    end

    def draw
      @pack = PACK.shuffle(random: @random) if @pack.empty?
      kind = @pack.pop
      length = 0.02 + ((@random.rand**2) * LONGEST_STOP)
      Blow.new(kind: kind, pause: @random.rand * PAUSE, slot: @random.rand(WORKERS), roll: @random.rand,
               duration: kind == :calm ? CALM : length)
    end
  end
end
