# frozen_string_literal: true

require_relative "conversation"

module Bench
  # A contestant's process that makes pairs: worker.rb or floor.c.
  class Runner < Conversation
    SLOWEST_PAIR = 0.001 # seconds

    def initialize(contestant, address, placement, floor_program)
      super(contestant, placement.client_core, *command(contestant, address, floor_program))
    end

    def time(warm, seconds) = order("time #{warm} #{seconds}", warm + seconds)
    def count(pairs) = order("count #{pairs}", pairs * SLOWEST_PAIR)

    # Returns the resident memory in bytes, or nil on a system without smaps_rollup.
    def resident
      path = "/proc/#{@io.pid}/smaps_rollup"
      File.exist?(path) ? Integer(File.read(path)[/^Rss:\s+(\d+) kB/, 1]) * 1024 : nil
    end

    private

    def command(contestant, address, floor_program)
      return [floor_program, *contestant.floor.call(address).map(&:to_s)] if contestant.native?

      path = contestant.peer? ? ["-rbundler/setup"] : ["-I", LIB]
      [
        RbConfig.ruby, *path, File.join(__dir__, "worker.rb"), contestant.name, address.port.to_s,
        address.socket
      ]
    end
  end
end
