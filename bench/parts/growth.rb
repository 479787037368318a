# frozen_string_literal: true

require_relative "../support/part"
require_relative "growth/distance"
require_relative "growth/keys"
require_relative "growth/leases"
require_relative "growth/processes"
require_relative "growth/waiters"

module Bench
  # Does a lock stay as fast when there are more keys, leases, waiters or processes? How fast is it
  # when its server is far away? A table answers each question.
  class Growth < Part
    NAME = "growth"
    TITLE = "Growth"
    SECTIONS = [Keys, Waiters, Processes, Leases, Distance].freeze

    # Passes all contestants to each section, which selects those of its own family.
    def initialize(...)
      super
      ENV[Stores::HUGE] = @options.huge ? "1" : nil
      @sections = SECTIONS.map { |section| section.new(...) }
    end

    # One placement is enough, because figures are compared only with others of the same placement.
    def everywhere? = false

    # Returns a Finding for each section that has results.
    def run(placement, &progress)
      @sections.filter_map do |section|
        section.run(placement) { |what| progress.call("#{section.class::TITLE}: #{what}") }
      end
    end
  end
end
