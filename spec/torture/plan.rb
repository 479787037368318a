# frozen_string_literal: true

require_relative "courses"

module Torture
  # Picks a choice at random from { choice => weight }.
  def self.pick(random, weights)
    left = random.rand * weights.values.sum
    weights.each { |choice, weight| return choice if (left -= weight).negative? }
    weights.keys.last
  end

  # The next call of a lane. It is drawn completely before the lane begins to act. Times are in
  # seconds.
  #   way        the kind of the call, which also limits the keys
  #   pause      the pause before the call
  #   hold       the length of the block; if longer than ttl, the lease expires or is renewed
  #   deed       an event in the block: nil, :compact, :fork, :oops,
  #              :leave (the child of a fork leaves the block),
  #              :downgrade (a writer becomes a reader),
  #              :heartbeat (another thread extends the lease while the block ends),
  #              :pair (two threads extend the lease at the same time),
  #              :handover (the lease is dumped, and two processes adopt the dump)
  #   dump       the lease to adopt, as [fence, dump]
  #   interrupt  the time after which a Timeout interrupts the call; nil: never
  Plan = Struct.new(:way, :pause, :key, :wait, :ttl, :hold, :renew, :deed, :interrupt,
                    :dump, keyword_init: true) do
    def self.draw(random, ways = WAYS, course = ROUGH)
      way = Torture.pick(random, ways.to_h { |one| [one, course.weights.fetch(one.name, 0)] })
      ttl = Torture.pick(random, course.ttls)
      length = Torture.pick(random, course.lengths)
      share = random.rand
      deed = Torture.pick(random, deeds(way, course))
      new(way: way, pause: (random.rand**2) * course.rest, key: way.keys.sample(random: random),
          wait: Torture.pick(random, course.waits), ttl: ttl,
          hold: hold(length, share, ttl), renew: Plan::RENEWED.include?(length), deed: deed,
          interrupt: (random.rand * 0.3 if deed.nil? && random.rand < course.interrupted))
    end

    # The deeds that suit a lease of this kind.
    def self.deeds(way, course)
      deeds = course.deeds
      deeds = deeds.reject { |deed,| Plan::TO_LEASES.include?(deed) } unless way.leases?
      deeds = deeds.reject { |deed,| deed == :handover } unless way.name == :acquire
      deeds = { **deeds, downgrade: Plan::DOWNGRADES } if way.mode == "w" && course.deeds.size > 1
      deeds.reject { |deed,| deed == :downgrade && way.mode != "w" }
    end
    private_class_method :deeds

    def self.hold(length, share, ttl)
      case length
      when :none then 0.0
      when :short then share * 0.006
      when :medium then 0.01 + (share * 0.03)
      when :long then 0.5 + (share * Plan::LONGEST_HOLD) # the lease is renewed
      when :edge then ttl * (0.985 + (share * 0.03)) # the release comes near the end of the lease
      else ttl * (1.1 + (share * 0.6)) # for :overrun and :renewed
      end
    end
    private_class_method :hold
  end

  Plan::RENEWED = %i[renewed long].freeze
  Plan::LONGEST_HOLD = 4.0
  Plan::TO_LEASES = %i[heartbeat pair handover].freeze
  Plan::DOWNGRADES = 30
  Plan::LONGEST_TTL = ROUGH.ttls.keys.max # the longest ttl in rounds that kill processes

  # The next disturbance by the driver, and its target.
  #   pause     seconds before the blow
  #   slot      the slot of the worker that the blow hits
  #   duration  seconds that the blow lasts, if it is one that lasts
  #   roll      0...1: selects the connection, the forgotten key, or the direction
  Blow = Struct.new(:kind, :pause, :slot, :duration, :roll, keyword_init: true)

  # An endless series of blows, drawn from a pack of cards. The pack is shuffled again when it is
  # used up, so that each kind of blow appears regularly.
  class Blows
    CALM = 3.5 # seconds; the workers recover, and the witness can judge the time after that
    LONGEST_STOP = 1.5
    DARKNESS = (1.0..3.0).freeze

    def initialize(random, course = ROUGH)
      @random = random
      @course = course
      @cards = course.pack.flat_map { |kind, count| [kind] * count }
      @pack = []
    end

    def draw
      @pack = @cards.shuffle(random: @random) if @pack.empty?
      kind = @pack.pop
      share = @random.rand
      Blow.new(
        kind: kind, pause: @random.rand * @course.pause, slot: @random.rand(@course.workers),
        roll: @random.rand, duration: duration(kind, share)
      )
    end

    private

    def duration(kind, share)
      case kind
      when :calm then CALM
      when :dark then DARKNESS.min + (share * (DARKNESS.max - DARKNESS.min))
      else 0.02 + ((share**2) * LONGEST_STOP)
      end
    end
  end
end
