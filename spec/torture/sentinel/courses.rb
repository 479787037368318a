# frozen_string_literal: true

require_relative "../courses"

module Torture
  module Sentinel
    # The blows on servers with sentinels (README.md). Each course has all of them.
    BLOWS = {
      kill_primary: 2, stop_primary: 2, fail_over: 2, isolate: 2, kill_sentinel: 1,
      stop_sentinel: 1
    }.freeze

    COMMON = { roads: %i[tcp], workers: 6, pause: 0.5 }.freeze

    # Long leases. Some of them are renewed.
    LASTING = { ttls: { 10.0 => 1 }, lengths: { none: 10, short: 60, long: 3 },
                waits: { 0.0 => 1, 1.5 => 3, 3.0 => 6 } }.freeze

    # Nearly all calls wait longer than a failover takes.
    LINES = { ttls: { 2.0 => 1 }, lengths: { short: 50, medium: 50 }, rest: 0.02,
              waits: { 3.0 => 1, 10.0 => 6 } }.freeze

    COURSES = [
      Course.new(**ROUGH.to_h, **COMMON, name: :rough,
                 pack: { **BLOWS, kill: 2, stop: 3, cut: 2, cut_pubsub: 2, flush: 1, calm: 1 }),
      # Servers stop and return, but only a failover ends a lease early.
      Course.new(**QUIET, **COMMON, **LASTING, name: :lasting, pack: { **BLOWS, calm: 3 }),
      Course.new(**QUIET, **COMMON, **LINES, name: :lines, pack: { **BLOWS, calm: 3 })
    ].each(&:freeze).to_h { |course| [course.name, course] }.freeze

    def self.course_of(seed, named) = named ? COURSES.fetch(named) : Course.of(seed, COURSES)
  end
end
