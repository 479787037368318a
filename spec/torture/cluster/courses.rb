# frozen_string_literal: true

require_relative "../sentinel/courses"

module Torture
  module Cluster
    # The courses for a cluster. README.md describes their blows.
    MOVES = { move: 6, move_slowly: 3 }.freeze
    FAILOVERS = { kill_primary: 1, stop_primary: 1, fail_over: 1 }.freeze

    COMMON = { **Sentinel::COMMON, interrupted: 0.02 }.freeze

    COURSES = [
      Course.new(**ROUGH.to_h, **COMMON, name: :rough,
                 pack: { **MOVES, **FAILOVERS, kill: 2, stop: 3, cut: 2, cut_pubsub: 2, flush: 1,
                         calm: 2 }),
      # Slots move, but no failover happens, so nothing may end a long lease early.
      Course.new(**QUIET, **COMMON, **Sentinel::LASTING, name: :moves, pack: { **MOVES, calm: 1 }),
      Course.new(**QUIET, **COMMON, **Sentinel::LINES, name: :lines,
                 pack: { **MOVES, **FAILOVERS, calm: 3 })
    ].each(&:freeze).to_h { |course| [course.name, course] }.freeze

    def self.course_of(seed, named) = named ? COURSES.fetch(named) : Course.of(seed, COURSES)
  end
end
