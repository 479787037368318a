# frozen_string_literal: true

require_relative "../support/part"

module Bench
  # How many connections does a process open if all its fibers wait for the same key?
  class Fibers < Part
    NAME = "fibers"
    TITLE = "Fibers waiting in one process"

    WATCHED = 2.0 # seconds after all fibers have asked
    LOOKS = 20

    COLUMNS = {
      "contestant" => ->(r) { r.contestant.label },
      "fibers" => ->(r) { r.fibers.to_s },
      "connections, at most" => ->(r) { r.connections.max.to_s },
      "connections, at last" => ->(r) { r.connections.last.to_s },
      "entered" => ->(r) { r.entered.to_s },
      "gave up" => ->(r) { r.gave_up.to_s },
      "all served in s" => ->(r) { format("%.2f", r.served_s) }
    }.freeze

    CONNECTIONS = 4

    # connections: how many connections the waiting process had each time they were counted.
    Result = Struct.new(:contestant, :fibers, :connections, :entered, :gave_up, :served_s) do
      def to_h = super.merge(contestant: contestant.name)
    end

    # One placement is enough, because the number of connections does not depend on the core.
    def everywhere? = false

    private

    def measure(placement)
      each_of(contenders.select(&:plock?), placement) do |contestant|
        yield contestant.name
        start([contestant], placement) do |(holder)|
          others = @server.connections
          start([contestant], placement, bundle: true) do |(waiter)|
            crowd(contestant, holder, waiter, others)
          end
        end
      end
    end

    def crowd(contestant, holder, waiter, others)
      key = fresh_key
      holder.enter(key)
      holder.entered
      waiter.enter_fibers(key, @options.fibers)
      waiter.fibers_asked
      connections = Array.new(LOOKS) do
        sleep(WATCHED / LOOKS)
        @server.connections - others
      end
      holder.leave
      left = holder.left.fetch("left_ns")
      entered, gave_up, last = waiter.fibers_done.values_at("entered", "gave_up", "last_ns")
      Result.new(contestant, @options.fibers, connections, entered, gave_up, (last - left) / 1e9)
    end

    def columns(_) = COLUMNS

    def checks(results, _)
      results.flat_map do |result|
        name, most = result.contestant.name, result.connections.max
        [
          Check.new("#{name} at most #{CONNECTIONS} connections", most.to_s, most <= CONNECTIONS),
          Check.new(
            "#{name} serves every fiber", "#{result.entered} of #{result.fibers}",
            result.entered == result.fibers
          )
        ]
      end
    end
  end
end
