# frozen_string_literal: true

require_relative "part"
require_relative "table"

module Bench
  # plock's targets without contention.
  class Targets
    # placement => the least share of the floor's rate
    OF_FLOOR = { "one" => 0.80, "two" => 0.90 }.freeze
    IN_BACKGROUND = { "two" => 1.3 }.freeze # like OF_FLOOR, for releases in the background
    P99_OF_FLOOR = 2.0
    OBJECTS = 6
    COMMANDS = 2
    GROWTH = 1024 * 1024 # bytes of growth over a million pairs

    # The columns in which plock must be better than every peer. Each names the value, and says
    # whether the greatest (:max) or the least (:min) is best.
    AGAINST_PEERS = {
      "pairs/s" => %i[rate max], "p50" => %i[p50 min], "p99" => %i[p99 min],
      "objects" => %i[objects min]
    }.freeze

    def initialize(placement, results)
      @placement = placement
      @background = results.select { |result| result.contestant.name.start_with?("background-") }
      @plocks = results.select { |result| result.contestant.role == :plock }
      @peers = results.select { |result| result.contestant.peer? }
    end

    def checks
      @plocks.flat_map { |plock| own(plock) + against_peers(plock) } +
        @background.filter_map { |result| of_floor(result, IN_BACKGROUND) }
    end

    private

    def of_floor(result, targets)
      least = targets[@placement.name] or return
      Check.new("#{result.contestant.name} at least #{least} of the floor",
                format("%.2f", result.ratio), result.ratio >= least)
    end

    def own(plock)
      name = plock.contestant.name
      list = [
        of_floor(plock, OF_FLOOR),
        Check.new(
          "#{name} p99 within #{P99_OF_FLOOR} of the floor's", format("%.2f", plock.p99_ratio),
          plock.p99_ratio <= P99_OF_FLOOR
        ),
        Check.new(
          "#{name} at most #{OBJECTS} objects a pair", Table.number(plock.objects),
          plock.objects.round(1) <= OBJECTS
        ),
        Check.new(
          "#{name} at most #{COMMANDS} commands a pair", Table.number(plock.commands),
          plock.commands.round(1) <= COMMANDS
        )
      ].compact
      if plock.growth
        list << Check.new(
          "#{name} grows by less than 1 MiB over a million pairs", "#{plock.growth / 1024} KiB",
          plock.growth < GROWTH
        )
      end
      list
    end

    # Peers are measured over TCP, so only plock over TCP is compared with them.
    def against_peers(plock)
      return [] if @peers.empty? || plock.contestant.transport != :tcp

      AGAINST_PEERS.map do |column, (value, better)|
        rival = @peers.public_send(:"#{better}_by", &value)
        mine, theirs = [plock, rival].map(&value)
        Check.new(
          "#{plock.contestant.name} ahead of every peer in #{column}",
          "#{Table.number(mine)} against #{Table.number(theirs)} (#{rival.contestant.label})",
          better == :max ? mine > theirs : mine < theirs
        )
      end
    end
  end
end
