# frozen_string_literal: true

require_relative "ways"

module Torture
  # A kind of round. It says how workers reach the server, which calls their lanes make, and how
  # they are disturbed. The seed of a round selects one of COURSES.
  #   pack       { blow => how many times it is in the pack }; see plan.rb
  #   pause      the longest time between two blows, in seconds
  #   roads      how workers reach the server (arena.rb), one for each slot in turn
  #   pools      the workers' pool_size, one for each slot in turn
  #   weights    { name of a way => weight }
  #   ttls, waits, lengths, deeds    { choice for a call => weight }
  #   rest       the longest pause of a lane between two calls, in seconds
  #   look       seconds between two looks of the onlooker at the server
  #   files      how many descriptors a worker may open; nil: no limit
  #   margin     how late a call may return, in nanoseconds
  Course = Struct.new(
    :name, :pack, :pause, :workers, :threads, :fibers, :roads, :pools, :weights, :ttls, :waits,
    :lengths, :deeds, :rest, :interrupted, :look, :files, :margin, keyword_init: true
  ) do
    # The first course is rough. Every second seed selects it.
    def self.of(seed, courses = COURSES)
      rough, *others = courses.values
      seed.even? ? rough : others[(seed / 2) % others.size]
    end

    def road(slot) = roads[slot % roads.size]
    def pool(slot) = pools[slot % pools.size]
    def relayed?(slot) = road(slot).end_with?("relay")

    # The seconds until the next moment at which all waiters give up together, in the course
    # :exodus.
    def to_exodus
      every = Torture.ns(EXODUS_EVERY)
      (every - (Clock.now % every)).fdiv(SECOND)
    end

    def exodus? = name == :exodus
  end

  LONG_LEASE = 5.0
  EXODUS_EVERY = 2.5

  LONG_TTLS = { 30.0 => 2, 60.0 => 1 }.freeze
  PATIENT = { 0.0 => 1, 0.3 => 1, 1.5 => 3, 3.0 => 6 }.freeze
  SHORT = { none: 20, short: 72, medium: 7 }.freeze

  ROUGH = Course.new(
    name: :rough, pause: 0.4, workers: 8, threads: 3, fibers: 3,
    pack: { kill: 4, stop: 6, cut: 4, cut_pubsub: 5, flush: 3, restart: 1, flushall: 1, evict: 1,
            dark: 2, calm: 1 },
    roads: %i[unix tcp tls relay unix tls tcp tls_relay], pools: [16, 16, 16, 16, 2, 16, 1, 16],
    weights: WAYS.to_h { |way| [way.name, way.weight] },
    ttls: { 0.25 => 2, 0.5 => 2, 1.0 => 1 },
    waits: { 0.0 => 2, 0.05 => 2, 0.3 => 2, 1.0 => 4, 3.0 => 6 },
    lengths: { **SHORT, edge: 0.2, overrun: 0.25, renewed: 0.3 },
    deeds: { nil => 93, compact: 0.2, fork: 0.4, leave: 0.3, oops: 2, heartbeat: 2, pair: 1,
             handover: 0.4 },
    rest: 0.12, interrupted: 0.03, look: 0.004, margin: 50 * MILLISECOND
  )

  # The common part of the courses that do not disturb the workers' processes. Leases are long, so
  # that a key stays taken if it is not released.
  QUIET = ROUGH.to_h.merge(
    pack: { calm: 1 }, ttls: LONG_TTLS, waits: PATIENT, lengths: SHORT,
    deeds: { nil => 96, oops: 2 }
  ).freeze

  COURSES = [
    ROUGH,
    # Each worker has more busy threads than connections. The server is not disturbed.
    Course.new(**QUIET, name: :pools, pools: [2, 16, 1], roads: %i[unix tcp tls], workers: 3,
               threads: 25, weights: { wide: 60, acquire: 6, read: 4, write: 1 },
               lengths: { none: 90, short: 10 }, rest: 0.0),
    # Two threads use one lease, and two processes adopt one dump.
    Course.new(**QUIET, name: :pairs, deeds: { nil => 40, heartbeat: 25, pair: 25, handover: 10 }),
    # Many readers are admitted at the same time, most of them over TLS.
    Course.new(**QUIET, name: :crowd, workers: 3, threads: 60, roads: %i[tls tls tcp],
               weights: { read: 60, write: 2 }, rest: 0.05, waits: { 3.0 => 1 },
               deeds: { nil => 90, downgrade: 5 }, lengths: { short: 30, medium: 10 }, look: 0.02),
    # The server forgets keys while many calls wait.
    Course.new(**QUIET, name: :oblivion, pack: { flushall: 3, evict: 4, calm: 4 },
               lengths: { short: 60, medium: 40 }, rest: 0.02, waits: { 1.5 => 1, 6.0 => 4 },
               roads: %i[unix tcp tls]),
    # Some workers cannot reach the server for seconds.
    Course.new(**QUIET, name: :dark, pack: { dark: 5, calm: 1 }, pause: 0.6, rest: 0.05,
               roads: %i[relay tls_relay unix]),
    # All waiters behind one holder give up at the same moment. Each worker may open only a few
    # descriptors.
    Course.new(**QUIET, name: :exodus, workers: 3, threads: 400, fibers: 0,
               weights: { acquire: 1 }, deeds: { nil => 1 }, interrupted: 0.0, look: 0.25,
               files: 256, margin: SECOND)
  ].each(&:freeze).to_h { |course| [course.name, course] }.freeze
  NAMES = COURSES.keys.freeze
end
