# frozen_string_literal: true

require_relative "../support/part"
require_relative "growth/distance"
require_relative "growth/keys"
require_relative "growth/leases"
require_relative "growth/processes"
require_relative "growth/waiters"

module Bench
  # Does a lock stay as fast with more keys, leases, waiters or processes, and far from its
  # server? Each question has a table.
  class Growth < Part
    NAME = "growth"
    TITLE = "Growth"
    SECTIONS = [Keys, Waiters, Processes, Leases, Distance].freeze

    # Each section chooses its contestants by their family.
    def initialize(...)
      super
      ENV[Stores::HUGE] = @options.huge ? "1" : nil
      @sections = SECTIONS.map { |section| section.new(...) }
    end

    # The figures are compared only with one another, not with those of another placement.
    def everywhere? = false

    # Returns a Finding for each section.
    def run(placement, &progress)
      @sections.filter_map do |section|
        section.run(placement) { |what| progress.call("#{section.class::TITLE}: #{what}") }
      end
    end
  end
end
